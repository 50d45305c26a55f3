-- fire_event_timer: a timer of an instance fires now, because a person said so. Refuses: one that is not (or no longer) armed,
-- and one whose token is about to leave by something else.
create or replace function celeriac.fire_event_timer(wait_uid uuid, principal text default null) returns table (instance_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.event_wait;
begin
    perform pg_advisory_xact_lock(celeriac.event_lock('token', t.uid::text)), celeriac.hold_interruptions(array[t.uid])
       from celeriac.event_wait w join celeriac.token t on t.instance_id = w.instance_id and t.id = w.token
      where w.uid = fire_event_timer.wait_uid;
    select w.* into held from celeriac.event_wait w where w.uid = fire_event_timer.wait_uid for update;
    if held.uid is null or held.kind <> 'timer' or held.due_at is null or not celeriac.still_waits(held.instance_id, held.token) then
        perform celeriac.refuse('not_found', 'there is no such timer');
    end if;
    update celeriac.event_wait w set due_at = null where w.instance_id = held.instance_id and w.id = held.id;
    perform celeriac.tell_instance(held.instance_id, 'happened', null, '{}', held.id);
    return query select held.instance_id;
end $$;
