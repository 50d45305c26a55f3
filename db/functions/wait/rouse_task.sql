-- rouse_task: WAITING -> READY, without a ring; the type of the task, null if it was not waiting. What else it waited for is
-- disarmed and keeps its time. A hand-over: whoever held it before has a stale token now.
-- The caller has locked the row of `waiting`; nobody else can wake or end the task until the transaction ends.
create or replace function celeriac.rouse_task(task_id uuid, moment timestamptz) returns text
language plpgsql volatile as $$
#variable_conflict use_column
declare
    rest celeriac.waiting;
    woken record;
begin
    delete from celeriac.waiting w where w.task_id = rouse_task.task_id returning w.* into rest;
    if not found then
        return null;
    end if;
    update celeriac.wait w set armed = false where w.task_id = rouse_task.task_id and w.armed;
    update celeriac.task t set state = 'OPEN' where t.id = rouse_task.task_id returning t.task_type, t.concurrency_key into woken;
    insert into celeriac.queue (task_id, run_at, turn_at, version, priority, payload_bytes, retries, expirations, task_type, state,
                                attempts, fencing_token, resumed, undoing, concurrency_key)
    values (rouse_task.task_id, moment, moment, rest.version, rest.priority, rest.payload_bytes, rest.retries, rest.expirations,
            woken.task_type, 'READY', rest.attempts, nextval('celeriac.fencing_token'), true, rest.undoing, woken.concurrency_key);
    perform celeriac.keep_still(rouse_task.task_id);
    return woken.task_type;
end $$;
