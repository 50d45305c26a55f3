-- fire_event_timers: due timers of instances become facts, a bounded batch, each once: whoever advances arms a cycle again. One
-- whose token somebody else tells something at this moment (see throw_event) is left to the next call.
create or replace function celeriac.fire_event_timers(max_timers integer default 500) returns table (instance_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    due record;
begin
    perform celeriac.check_range(max_timers, 1, 1000, 'max_timers');
    for due in
        select w.instance_id, w.id, t.uid from celeriac.event_wait w
          join celeriac.token t on t.instance_id = w.instance_id and t.id = w.token
         where w.due_at <= moment
         order by w.due_at, w.instance_id limit max_timers for update of w skip locked
    loop
        continue when not pg_try_advisory_xact_lock(celeriac.event_lock('token', due.uid::text));
        update celeriac.event_wait w set due_at = null where w.instance_id = due.instance_id and w.id = due.id;
        perform celeriac.tell_instance(due.instance_id, 'happened', null, '{}', due.id);
        return query select due.instance_id;
    end loop;
end $$;
