-- set_variables: sets and drops variables of an open instance. From where a token stands: each where it is already, looking
-- outwards, else at the root; `local_only`: at the activity or subprocess that the token stands on. Without a token: at the root.
-- `types`: {name: {"type", "info"}}. What is transient is nowhere kept, so it is not set. Answers how many were set. What would grow
-- beyond what a task can have, with all that is seen there, is refused (too_large): the next task could not be made.
create or replace function celeriac.set_variables(
    instance_id uuid, variables jsonb, drop_names text[] default '{}', types jsonb default '{}', principal text default null,
    token_uid uuid default null, local_only boolean default false)
returns integer
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held uuid;
    one record;
    place integer;
    changed integer := 0;
    size bigint;
begin
    perform celeriac.read_variables(jsonb_build_object('variables', set_variables.variables), 'instance'),
            celeriac.check_types(set_variables.types, set_variables.variables, 'types');
    select i.id into held from celeriac.instance i where i.id = set_variables.instance_id and i.ended_at is null for update;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such open instance');
    elsif token_uid is not null and not exists (
        select from celeriac.token t where t.uid = set_variables.token_uid and t.instance_id = held) then
        perform celeriac.refuse('not_found', 'there is no such token');
    end if;
    size := celeriac.visible_bytes(coalesce(token_uid, held));
    for one in
        select e.key as name, e.value, set_variables.types -> e.key as said, false as gone from jsonb_each(set_variables.variables) e
         where not coalesce((set_variables.types -> e.key ->> 'transient')::boolean, false)
         union all
        select d.name, null, null, true from unnest(drop_names) d (name)
    loop
        place := celeriac.holder_of(held, one.name, token_uid, local_only);
        if place is null then
            update celeriac.token t
               set variables = t.variables - one.name || case when one.gone then '{}' else jsonb_build_object(one.name, one.value) end,
                   types = nullif(coalesce(t.types, '{}') - one.name
                                  || case when one.said is null then '{}' else jsonb_build_object(one.name, one.said) end, '{}')
             where t.uid = set_variables.token_uid;
        elsif one.gone then
            delete from celeriac.variable v where v.instance_id = held and v.scope = place and v.name = one.name;
        else
            insert into celeriac.variable (instance_id, scope, name, value, type, info)
            values (held, place, one.name, one.value, one.said ->> 'type', nullif(one.said -> 'info', 'null'))
                on conflict (instance_id, scope, name) do update set value = excluded.value, type = excluded.type, info = excluded.info;
        end if;
        changed := changed + (not one.gone)::integer;
    end loop;
    if celeriac.visible_bytes(coalesce(token_uid, held)) > greatest(size, 1048576) then
        perform celeriac.refuse('too_large', 'instance.variables must not be over 1 MiB', 'instance.variables');
    end if;
    perform celeriac.keep_files(held, celeriac.files_in(set_variables.variables, set_variables.types));
    return changed;
end $$;
