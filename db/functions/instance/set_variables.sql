-- set_variables: variables of an open instance, at its root or where they are already nearest to a token's scope.
create or replace function celeriac.set_variables(
    instance_id uuid, variables jsonb, drop_names text[] default '{}', types jsonb default '{}', principal text default null)
returns integer
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    root integer;
    changed integer;
begin
    perform celeriac.read_variables(jsonb_build_object('variables', set_variables.variables), 'instance');
    perform from celeriac.instance i where i.id = set_variables.instance_id and i.ended_at is null for update;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such open instance');
    end if;
    select s.id into root from celeriac.scope s where s.instance_id = set_variables.instance_id and s.parent is null;
    delete from celeriac.variable v
     where v.instance_id = set_variables.instance_id and v.scope = root and v.name = any (drop_names);
    insert into celeriac.variable (instance_id, scope, name, value, type)
    select set_variables.instance_id, root, e.key, e.value, set_variables.types ->> e.key from jsonb_each(set_variables.variables) e
        on conflict (instance_id, scope, name) do update set value = excluded.value, type = excluded.type;
    get diagnostics changed = row_count;
    return changed;
end $$;
