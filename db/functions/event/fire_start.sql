-- fire_start: a due timer start event -> an instance, and the timer is due again at next_at (null: never). Compares: of several
-- that fire the same slot, one does, the others answer nothing.
create or replace function celeriac.fire_start(definition_id uuid, node text, due_at timestamptz, next_at timestamptz)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    update celeriac.start_wait w set due_at = fire_start.next_at, fired = w.fired + 1
     where w.definition_id = fire_start.definition_id and w.node = fire_start.node and w.due_at = fire_start.due_at;
    if found then
        return query select * from celeriac.start_instance(fire_start.definition_id, '{}', null, fire_start.node);
    end if;
end $$;
