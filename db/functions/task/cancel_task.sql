-- cancel_task: READY | SCHEDULED | BLOCKED | LOCKED | WAITING -> CANCELED, and with it all tasks that it has asked for; or, if
-- `compensate` and there is something to undo, -> READY, to be undone and CANCELED then.
-- Answers with the outcome that won: canceling again holds; a task that ended otherwise is refused (already_ended); one that is
-- being undone goes on so (UNDOING). A held task gets a new fencing token, so whatever its worker still sends is stale.
create or replace function celeriac.cancel_task(
    task_id uuid, reason text default null, compensate boolean default false, principal text default null,
    only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    why text := celeriac.cut_text(cancel_task.reason, 8192);
    me text := coalesce(cancel_task.principal, session_user);
    undo boolean := coalesce(cancel_task.compensate, false);
    before text;
    owner uuid;
    after text;
begin
    select t.state, t.instance_id into before, owner from celeriac.task t
     where t.id = cancel_task.task_id and celeriac.may_touch(t.task_type, only_types);
    if not found then
        perform celeriac.refuse('not_found', 'there is no such task');
    end if;
    after := celeriac.stop_task(cancel_task.task_id, why, undo, me, true);
    if after = 'PURGED' then
        perform celeriac.refuse('not_found', 'there is no such task');
    elsif after not in ('CANCELED', 'UNDOING') then
        perform celeriac.refuse('already_ended', 'the task has ended as ' || after);
    elsif before <> 'CANCELED' then
        perform celeriac.stop_children(cancel_task.task_id, why, undo, me);
        if celeriac.sees_the_past() then
            perform celeriac.leave_follow_up('cancel', cancel_task.task_id, why, undo, me);
        end if;
    end if;
    return query select cancel_task.task_id, after, owner;
end $$;
