-- end_failed: LOCKED -> READY | SCHEDULED | FAILED, one item of fail_tasks, with its line in the timeline.
create or replace function celeriac.end_failed(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, failure celeriac.reported_failure, principal text,
    only_types text[])
returns celeriac.write_answer
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    held celeriac.queue;
    left_over integer;
    due_at timestamptz;
begin
    select q.* into held
      from celeriac.queue q
     where q.task_id = end_failed.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = end_failed.worker_id and q.lease_principal = end_failed.principal
       and q.fencing_token = coalesce(end_failed.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types)
       for update;
    if not found then
        return celeriac.answer_failure(ordinal, task_id, worker_id, fencing_token, principal, only_types);
    end if;
    left_over := coalesce(failure.retries, greatest(held.retries - 1, 0));
    if left_over = 0 then
        perform celeriac.bury_task(held, failure.error, moment);
    else
        due_at := moment + coalesce(failure.retry_after_ms, celeriac.rest_of(held)) * interval '1 millisecond';
        perform celeriac.requeue_task(held, left_over, due_at, moment);
    end if;
    perform celeriac.write_history(moment, held.task_id, 'failed', held.fencing_token, held.attempts, held.leased_at,
                held.lease_owner, held.lease_principal,
                jsonb_build_object('error', failure.error, 'retries', left_over, 'run_at', due_at));
    return (ordinal, task_id, case when left_over = 0 then 'FAILED' when due_at > moment then 'SCHEDULED' else 'READY' end,
            left_over, due_at, null, null)::celeriac.write_answer;
end $$;
