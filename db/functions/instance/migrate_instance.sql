-- migrate_instance: an open instance goes on in another version of its process, from where it stands. All or nothing.
-- Refuses: not_found; invalid when that is another process or is suspended, or when an element that the instance needs is not
-- there or is something else (each is named). Timers and tasks that are open stay as they are; boundary events that only the
-- new version has are opened for activities that are entered from now on.
create or replace function celeriac.migrate_instance(instance_id uuid, definition_id uuid, principal text default null)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.instance;
    old celeriac.definition;
    new celeriac.definition;
    wrong text;
begin
    select i.* into held from celeriac.instance i where i.id = migrate_instance.instance_id and i.ended_at is null for update;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such open instance');
    end if;
    select d.* into old from celeriac.definition d where d.id = held.definition_id;
    perform pg_advisory_xact_lock_shared(celeriac.definition_lock(migrate_instance.definition_id));
    select d.* into new from celeriac.definition d where d.id = migrate_instance.definition_id;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such process definition');
    elsif new.key <> old.key then
        perform celeriac.refuse('invalid', 'that is a version of another process', 'definition_id');
    elsif not celeriac.is_active(new, celeriac.now()) then
        perform celeriac.refuse('invalid', 'the process definition is suspended', 'definition_id');
    end if;
    select string_agg(m.node || ' ' || m.reason, ', ') into wrong
      from (select * from celeriac.misfits(held.id, old.graph, new.graph) limit 20) m;
    if wrong is not null then
        perform celeriac.refuse('invalid', 'the instance does not fit into that version: ' || wrong, 'definition_id');
    end if;
    update celeriac.instance i set definition_id = new.id where i.id = held.id;
    if new.id <> old.id then
        insert into celeriac.instance_history (instance_id, at, token, what, node)
        values (held.id, celeriac.now(), 0, 'migrated', old.version || ' -> ' || new.version);
    end if;
    return query select held.id, true;
end $$;
