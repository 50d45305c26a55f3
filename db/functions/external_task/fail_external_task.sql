-- fail_external_task: LOCKED -> READY | SCHEDULED | FAILED: as many retries are left as the worker says (null: one less), and 0 is an
-- incident of the instance, never a roll-back. Reported again for a task that has FAILED: 0 changes only what it says, more opens it
-- again. Variables are set whatever becomes of the task. Otherwise as complete_external_task.
create or replace function celeriac.fail_external_task(
    task_id uuid, worker_id text, error_message text default null, error_details text default null, retries integer default 0,
    retry_after_ms bigint default 0, variables jsonb default '{}', types jsonb default '{}', local_variables jsonb default '{}',
    local_types jsonb default '{}', principal text default null, only_types text[] default null)
returns setof celeriac.failed_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(fail_external_task.principal, session_user);
    told jsonb := celeriac.told_of(variables, types, local_variables, local_types);
    failure celeriac.reported_failure;
    held celeriac.queue;
    owner record;
    was_failed boolean;
    news boolean;
    answer celeriac.write_answer;
begin
    if retries is not null then
        perform celeriac.check_range(retries, 0, 2147483647, 'retries');
    end if;
    if retry_after_ms is not null then
        perform celeriac.check_range(retry_after_ms, 0, 3155760000000, 'retry_after_ms');
    end if;
    failure := (celeriac.cut_text(coalesce(error_message, ''), 8192), retry_after_ms, retries,
                celeriac.cut_text(error_details, 1048576), false)::celeriac.reported_failure;
    held := celeriac.hold_external(task_id, only_types);
    was_failed := held.state = 'FAILED';
    held := celeriac.hold_to_end(task_id, worker_id, me, only_types, not was_failed or retries > 0);
    select t.instance_id, t.token_id into owner from celeriac.task t where t.id = task_id;
    news := owner.instance_id is not null and told <> '{"variables": {}}';
    if news then
        perform celeriac.tell_owner(owner.instance_id, owner.token_id, 'changed', told);
    end if;
    if held.state = 'FAILED' then
        answer := celeriac.retell_failed(held, failure);
    else
        answer := celeriac.end_failed(0, task_id, worker_id, held.fencing_token, failure, me, only_types);
        perform celeriac.raise_refused(answer.code, answer.message, task_id, worker_id, held.fencing_token);
        if was_failed then
            news := true;
            perform celeriac.work_again(owner.instance_id, owner.token_id, me);
        end if;
    end if;
    return query select answer.task_id, answer.state, answer.retries, answer.run_at, case when news then owner.instance_id else answer.instance_id end;
end $$;
