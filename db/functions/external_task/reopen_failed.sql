-- reopen_failed: FAILED -> READY with no retry left, for a worker that had it last and takes it back in the same transaction.
create or replace function celeriac.reopen_failed(task_id uuid) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
    was celeriac.task;
begin
    select t.* into was from celeriac.task t where t.id = reopen_failed.task_id;
    update celeriac.task t
       set state = 'OPEN', error = null, started_at = null, ended_at = null, worker_id = null, principal = null, fencing_token = null
     where t.id = was.id;
    insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, retries_told, payload_bytes, state,
                                task_type, attempts, expirations, resumed, concurrency_key)
    values (was.id, nextval('celeriac.fencing_token'), celeriac.now(), celeriac.now(), was.version, was.priority, 0, true,
            octet_length(was.variables::text), 'READY', was.task_type, was.attempts, was.expirations, true, was.concurrency_key);
end $$;
