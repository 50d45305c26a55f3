-- end_wait: one thing that a waiting task waits for has come, or its time is over: its outcome becomes a step, which a replay
-- finds. False when the task does not wait for it any more. The caller has locked the row of `waiting`, and wakes the task.
create or replace function celeriac.end_wait(task_id uuid, branch text, ordinal integer, result jsonb, moment timestamptz)
returns boolean
language plpgsql volatile as $$
declare
    over celeriac.wait;
begin
    delete from celeriac.wait w
     where w.task_id = end_wait.task_id and w.branch = end_wait.branch and w.ordinal = end_wait.ordinal and w.armed
    returning w.* into over;
    if not found then
        return false;
    end if;
    insert into celeriac.step (task_id, recorded_at, ordinal, branch, kind, name, result)
    values (over.task_id, moment, over.ordinal, over.branch, over.kind, over.name, end_wait.result);
    return true;
end $$;
