-- cancel_task: READY | SCHEDULED | LOCKED | WAITING -> CANCELED
-- Answers with the outcome that won: canceling again holds; a task that ended otherwise is refused (already_ended).
-- A held task gets a new fencing token, so whatever its worker still sends is stale.
create or replace function celeriac.cancel_task(
    task_id uuid, reason text default null, principal text default null, only_types text[] default null)
returns setof celeriac.task_state
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    why text := celeriac.cut_text(cancel_task.reason, 8192);
    cold record;
    hot celeriac.queue;
begin
    loop
        select t.state, t.task_type into cold from celeriac.task t where t.id = cancel_task.task_id;
        if not found or not celeriac.may_touch(cold.task_type, only_types) then
            perform celeriac.refuse('not_found', 'there is no such task');
        elsif cold.state in ('COMPLETED', 'FAILED') then
            perform celeriac.refuse('already_ended', 'the task has ended as ' || cold.state);
        end if;
        exit when cold.state = 'CANCELED';
        -- The queue row first, as every transition locks. An open task without one has just moved (redriven, resumed,
        -- ended): look again rather than wait for its cold row, which would be the other order.
        delete from celeriac.queue q where q.task_id = cancel_task.task_id returning q.* into hot;
        exit when celeriac.end_canceled(cancel_task.task_id, hot, why, coalesce(cancel_task.principal, session_user));
    end loop;
    return query select cancel_task.task_id, 'CANCELED';
end $$;
