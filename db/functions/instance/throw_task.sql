-- throw_task: LOCKED -> COMPLETED, as a business error that the model may catch. Refuses: a lease that is not (or no longer) the
-- caller's, and a task that belongs to no instance. The same throw again (same worker, token and code) holds.
create or replace function celeriac.throw_task(
    task_id uuid, worker_id text, fencing_token bigint default null, error_code text default null, error_message text default null,
    variables jsonb default '{}', principal text default null, only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    me text := coalesce(throw_task.principal, session_user);
    interrupted boolean;
    ended celeriac.ended_task;
begin
    perform celeriac.check_name(throw_task.worker_id, 'worker_id'), celeriac.check_name(throw_task.error_code, 'error_code');
    perform celeriac.read_variables(jsonb_build_object('variables', throw_task.variables), 'task');
    interrupted := throw_task.task_id = any (celeriac.interrupted(array[throw_task.task_id]));
    ended := celeriac.end_thrown(throw_task.task_id, throw_task.worker_id, throw_task.fencing_token, throw_task.error_code,
                                 throw_task.error_message, throw_task.variables, me, only_types, interrupted);
    if ended.task_id is null
       and (celeriac.past_write(throw_task.task_id, 'thrown', throw_task.worker_id, throw_task.fencing_token, me, only_types)).detail ->> 'code'
           is distinct from throw_task.error_code then
        perform celeriac.refuse_write(throw_task.task_id, throw_task.worker_id, throw_task.fencing_token, me, only_types);
    end if;
    return query select throw_task.task_id, 'COMPLETED', ended.instance_id;
end $$;
