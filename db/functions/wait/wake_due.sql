-- wake_due: WAITING -> READY, a bounded batch of tasks that wait for a time that has come, or have waited long enough; those
-- that somebody is at are left for the next pass. All that is due of a task comes at once.
create or replace function celeriac.wake_due(max_tasks integer) returns table (fired integer, task_types text[])
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    candidate uuid;
    place record;
    came boolean;
    task_type text;
begin
    fired := 0; task_types := '{}';
    for candidate in
        select w.task_id from celeriac.wait w where w.armed and w.until is not null and w.until <= moment
         order by w.until, w.task_id limit max_tasks + 1000
    loop
        exit when fired = max_tasks;
        -- It was woken in this very pass, or somebody is at it.
        continue when not celeriac.hold_waiting(candidate);
        came := false;
        for place in
            select w.branch, w.ordinal, w.child_id from celeriac.wait w where w.task_id = candidate and w.armed and w.until <= moment
        loop
            -- A child that ended at the last moment is no time-out.
            came := celeriac.end_wait(candidate, place.branch, place.ordinal,
                        case when place.child_id is not null then celeriac.outcome_of(place.child_id) end, moment) or came;
        end loop;
        if came then
            task_type := celeriac.rouse_task(candidate, moment);
            fired := fired + 1;
            if task_type <> all (task_types) then
                task_types := task_types || task_type;
            end if;
        end if;
    end loop;
    if fired > 0 then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
