-- end_failed: LOCKED -> READY | SCHEDULED | FAILED, one item of fail_tasks, with its line in the timeline. For good, a task with
-- something to undo is READY again, to be undone, and one whose undo fails is WAITING for a person.
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
    state text;
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
        state := celeriac.fail_for_good(held, failure.error, moment, coalesce(failure.undo, true));
        if state = 'READY' then
            due_at := moment;
            left_over := celeriac.full_retries(held.task_id);
        end if;
    else
        due_at := moment + coalesce(failure.retry_after_ms, celeriac.rest_of(held)) * interval '1 millisecond';
        state := case when due_at > moment then 'SCHEDULED' else 'READY' end;
        perform celeriac.requeue_task(held, left_over, due_at, moment);
    end if;
    perform celeriac.write_history(moment, held.task_id, 'failed', held.fencing_token, held.attempts, held.leased_at,
                held.lease_owner, held.lease_principal,
                jsonb_build_object('error', failure.error, 'retries', left_over, 'run_at', due_at, 'state', state)
                || case when failure.details is null then '{}' else jsonb_build_object('details', failure.details) end);
    return (ordinal, task_id, state, left_over, due_at, null, null,
            case when state = 'FAILED' then (select t.instance_id from celeriac.task t where t.id = held.task_id) end)::celeriac.write_answer;
end $$;
