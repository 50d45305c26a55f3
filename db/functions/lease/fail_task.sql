-- fail_task: LOCKED -> READY | SCHEDULED | FAILED, one task; raises what fail_tasks answers as a code.
create or replace function celeriac.fail_task(
    task_id uuid, worker_id text, fencing_token bigint default null, error text default null, retry_after_ms bigint default null,
    retries integer default null, principal text default null, only_types text[] default null)
returns setof celeriac.failed_task
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
declare
    answer record;
begin
    select * into answer from celeriac.fail_tasks(
        jsonb_build_array(jsonb_build_object('task_id', fail_task.task_id, 'fencing_token', fail_task.fencing_token,
            'error', fail_task.error, 'retry_after_ms', fail_task.retry_after_ms, 'retries', fail_task.retries)),
        fail_task.worker_id, coalesce(fail_task.principal, session_user), only_types);
    perform celeriac.raise_refused(answer.code, answer.message, fail_task.task_id, fail_task.worker_id, fail_task.fencing_token);
    return query select answer.task_id, answer.state, answer.retries, answer.run_at, answer.instance_id;
end $$;
