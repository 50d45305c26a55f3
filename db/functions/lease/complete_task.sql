-- complete_task: LOCKED -> COMPLETED, one task; raises what complete_tasks answers as a code.
create or replace function celeriac.complete_task(
    task_id uuid, worker_id text, fencing_token bigint default null, variables jsonb default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
declare
    answer record;
begin
    select * into answer from celeriac.complete_tasks(
        jsonb_build_array(jsonb_build_object('task_id', complete_task.task_id, 'fencing_token', complete_task.fencing_token,
                                             'variables', complete_task.variables)),
        complete_task.worker_id, coalesce(complete_task.principal, session_user), only_types);
    perform celeriac.raise_refused(answer.code, answer.message, complete_task.task_id, complete_task.worker_id, complete_task.fencing_token);
    return query select answer.task_id, answer.state, answer.instance_id;
end $$;
