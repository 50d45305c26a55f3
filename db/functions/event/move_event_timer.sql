-- move_event_timer: a timer of an instance is due at another time; what a cycle does after that stays. Refuses: one that is not armed.
create or replace function celeriac.move_event_timer(wait_uid uuid, due_at timestamptz, principal text default null) returns void
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    update celeriac.event_wait w set due_at = coalesce(move_event_timer.due_at, celeriac.now())
     where w.uid = move_event_timer.wait_uid and w.kind = 'timer' and w.due_at is not null;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such timer');
    end if;
end $$;
