-- complete_external_task: LOCKED -> COMPLETED, also after the lock has run out, the attempt has failed or the task has FAILED, as long as
-- nobody else has taken it since (hold_to_end). A completed task is not_found here, for its own worker as well.
create or replace function celeriac.complete_external_task(
    task_id uuid, worker_id text, variables jsonb default '{}', types jsonb default '{}', local_variables jsonb default '{}',
    local_types jsonb default '{}', principal text default null, only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(complete_external_task.principal, session_user);
    told jsonb := celeriac.told_of(variables, types, local_variables, local_types);
    held celeriac.queue;
    answer celeriac.write_answer;
begin
    perform celeriac.check_wanted(task_id);
    held := celeriac.hold_to_end(task_id, worker_id, me, only_types);
    answer := celeriac.end_completed(0, task_id, worker_id, held.fencing_token, celeriac.lasting(variables, types), me, only_types, false, told);
    perform celeriac.raise_refused(answer.code, answer.message, task_id, worker_id, held.fencing_token);
    return query select answer.task_id, answer.state, answer.instance_id;
end $$;
