-- keep_waits: writes down what a task waits for: armed when it goes to rest; else only what has a time-out, so that the time
-- runs on while the task goes on with what has come.
create or replace function celeriac.keep_waits(asked celeriac.asked_wait[], held celeriac.queue, armed boolean, moment timestamptz)
returns void language plpgsql volatile as $$
declare
    wanted celeriac.asked_wait;
    kept boolean := false;
begin
    foreach wanted in array asked loop
        continue when not armed and (wanted.until is null or wanted.known
            or exists (select from celeriac.step s where s.task_id = held.task_id and s.branch = wanted.branch and s.ordinal = wanted.ordinal));
        insert into celeriac.wait (task_id, since, until, child_id, ordinal, branch, kind, name, topic, key, armed)
        values (held.task_id, moment, wanted.until, wanted.child_id, wanted.ordinal, wanted.branch, wanted.kind, wanted.name,
                wanted.topic, wanted.key, keep_waits.armed)
            on conflict (task_id, branch, ordinal) do update
           set until = excluded.until, child_id = excluded.child_id, incident_id = null, kind = excluded.kind,
               name = excluded.name, topic = excluded.topic, key = excluded.key, armed = excluded.armed;
        kept := true;
    end loop;
    if kept and not armed and not held.resumed then
        -- So that its end forgets them.
        update celeriac.queue q set resumed = true where q.task_id = held.task_id;
    end if;
end $$;
