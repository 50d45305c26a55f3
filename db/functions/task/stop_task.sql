-- stop_task: READY | SCHEDULED | BLOCKED | LOCKED | WAITING -> CANCELED, or (compensate, and there is something to undo) -> READY,
-- to be undone. Answers with CANCELED; with UNDOING, also when it is being undone already, and nothing is changed then; with
-- the state in which it had ended; or, unless `patient`, with BUSY when somebody is at it.
create or replace function celeriac.stop_task(task_id uuid, why text, compensate boolean, principal text, patient boolean) returns text
language plpgsql volatile as $$
declare
    moment timestamptz;
    state text;
    hot celeriac.queue;
begin
    loop
        select t.state into state from celeriac.task t where t.id = stop_task.task_id;
        if state is null or state in ('COMPLETED', 'FAILED', 'CANCELED') then
            return coalesce(state, 'PURGED');
        end if;
        -- The row that holds the open task first, as every transition locks. An open task without one has just moved
        -- (redriven, resumed, ended): look again rather than wait for its cold row, which would be the other order.
        hot := celeriac.hold_open(stop_task.task_id, patient);
        exit when hot.task_id is not null;
        if not patient then
            return 'BUSY';
        end if;
    end loop;
    if exists (select from celeriac.saga s where s.task_id = stop_task.task_id) then
        return 'UNDOING';
    end if;
    moment := celeriac.now();
    if hot.state is null then
        perform celeriac.close_incidents(stop_task.task_id, 'canceled', principal, moment);
    end if;
    if compensate and celeriac.must_undo(stop_task.task_id) then
        if hot.state is null then
            perform celeriac.rouse_task(stop_task.task_id, moment);
            select q.* into hot from celeriac.queue q where q.task_id = stop_task.task_id;
        end if;
        perform celeriac.begin_undo(hot, 'canceled', why, moment, principal);
        return 'UNDOING';
    elsif hot.state is null then
        delete from celeriac.waiting w where w.task_id = stop_task.task_id;
        hot := null;
    else
        delete from celeriac.queue q where q.task_id = stop_task.task_id;
    end if;
    perform celeriac.end_canceled(stop_task.task_id, hot, why, principal);
    return 'CANCELED';
end $$;
