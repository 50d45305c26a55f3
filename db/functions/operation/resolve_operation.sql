-- resolve_operation: UNKNOWN -> DONE | NOT_DONE | FAILED, because a person found out; its task is woken and goes on from there.
-- DONE and FAILED are recorded as the step, so the handler gets that result, or its StepFailed; NOT_DONE is begun again.
-- Refuses: an operation that is not UNKNOWN (already_ended); the same resolution again holds.
create or replace function celeriac.resolve_operation(
    operation_id uuid, outcome text, result jsonb default null, note text default null, principal text default null,
    only_types text[] default null)
returns setof celeriac.resolved_operation
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    came jsonb := celeriac.read_result(resolve_operation.result, 'result');
    why text := celeriac.cut_text(resolve_operation.note, 8192);
    of_type text;
    op celeriac.operation;
    incident celeriac.incident;
begin
    if resolve_operation.outcome is null or resolve_operation.outcome not in ('DONE', 'NOT_DONE', 'FAILED') then
        perform celeriac.refuse('invalid', 'outcome must be DONE, NOT_DONE or FAILED', 'outcome');
    elsif came is not null and resolve_operation.outcome <> 'DONE' then
        perform celeriac.refuse('invalid', 'only what is DONE has a result', 'result');
    end if;
    select t.task_type, t.id into of_type, op.task_id
      from celeriac.operation o join celeriac.task t on t.id = o.task_id where o.id = resolve_operation.operation_id;
    if not found or not celeriac.may_touch(of_type, only_types) then
        perform celeriac.refuse('not_found', 'there is no such operation');
    end if;
    -- Whoever wakes or ends a task has locked its row first; then the operation is looked at again.
    perform celeriac.hold_open(op.task_id, true);
    select o.* into op from celeriac.operation o where o.id = resolve_operation.operation_id for update;
    select i.* into incident from celeriac.incident i
     where i.task_id = op.task_id and i.operation_id = op.id order by i.id desc limit 1;
    if op.state <> 'UNKNOWN' and (op.state <> resolve_operation.outcome or incident.resolved_at is null
                                  or celeriac.result_of(op) is distinct from came) then
        perform celeriac.refuse('already_ended', format('the operation is %s; only an UNKNOWN one can be resolved', op.state));
    elsif op.state = 'UNKNOWN' then
        op := celeriac.end_operation(op, resolve_operation.outcome, came,
                                     case when resolve_operation.outcome <> 'DONE' then why end, null, moment);
        if celeriac.close_incident(incident, resolve_operation.outcome, why, coalesce(resolve_operation.principal, session_user), moment) then
            perform celeriac.wake_task(op.task_id, moment);
        end if;
    end if;
    return query select op.id, op.state, op.task_id, of_type;
end $$;
