-- tell_waiters: wakes the tasks that wait for one that has just ended. False when somebody is at one of them: it is left as
-- it is, and must be looked at again.
create or replace function celeriac.tell_waiters(child_id uuid) returns boolean
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    outcome jsonb := celeriac.outcome_of(tell_waiters.child_id);
    all_told boolean := true;
    place record;
begin
    for place in
        select w.task_id, w.branch, w.ordinal from celeriac.wait w
         where w.child_id = tell_waiters.child_id and w.armed order by w.task_id, w.branch, w.ordinal
    loop
        if not celeriac.hold_waiting(place.task_id) then
            all_told := all_told and not exists (select from celeriac.waiting w where w.task_id = place.task_id);
        elsif celeriac.end_wait(place.task_id, place.branch, place.ordinal, outcome, moment) then
            perform celeriac.wake_task(place.task_id, moment);
        end if;
    end loop;
    return all_told;
end $$;
