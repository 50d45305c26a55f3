-- throw_external_task: LOCKED -> COMPLETED, as a business error that the model may catch; otherwise as complete_external_task.
create or replace function celeriac.throw_external_task(
    task_id uuid, worker_id text, error_code text, error_message text default null, variables jsonb default '{}', types jsonb default '{}',
    principal text default null, only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(throw_external_task.principal, session_user);
    told jsonb := celeriac.told_of(variables, types, '{}', '{}');
    held celeriac.queue;
    answer celeriac.ended_task;
begin
    perform celeriac.check_name(error_code, 'error_code');
    perform celeriac.check_wanted(task_id);
    held := celeriac.hold_to_end(task_id, worker_id, me, only_types);
    answer := celeriac.end_thrown(task_id, worker_id, held.fencing_token, error_code, error_message, celeriac.lasting(variables, types),
                                  me, only_types, false, told);
    if answer.task_id is null then
        perform celeriac.refuse_write(task_id, worker_id, held.fencing_token, me, only_types);
    end if;
    return query select answer.*;
end $$;
