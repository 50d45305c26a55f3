-- settle_operation: STARTED -> DONE | NOT_DONE | FAILED | UNKNOWN, or STARTED still
-- DONE: its result is recorded as the step. NOT_DONE: it may be begun again. FAILED: it is known to have had no effect, and
-- the handler goes on without it: its error is recorded as the step. ERRED: `do` raised, and nobody knows yet; the error is
-- noted. UNKNOWN: nobody can find out: an incident, LOCKED -> WAITING. The same outcome again holds.
create or replace function celeriac.settle_operation(
    task_id uuid, worker_id text, fencing_token bigint, operation_id uuid, outcome text, result jsonb default null,
    error text default null)
returns setof celeriac.settled_operation
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    came jsonb := celeriac.read_result(settle_operation.result, 'result');
    why text := celeriac.cut_text(settle_operation.error, 8192);
    held celeriac.queue;
    op celeriac.operation;
begin
    perform celeriac.check_name(settle_operation.worker_id, 'worker_id');
    if settle_operation.outcome is null or settle_operation.outcome not in ('DONE', 'NOT_DONE', 'FAILED', 'ERRED', 'UNKNOWN') then
        perform celeriac.refuse('invalid', 'outcome must be DONE, NOT_DONE, FAILED, ERRED or UNKNOWN', 'outcome');
    elsif came is not null and settle_operation.outcome <> 'DONE' then
        perform celeriac.refuse('invalid', 'only what is DONE has a result', 'result');
    end if;
    held := celeriac.try_lease(settle_operation.task_id, settle_operation.worker_id, settle_operation.fencing_token);
    if held.task_id is null then
        -- The lease ends with UNKNOWN: its repeat comes without one.
        if settle_operation.outcome is distinct from 'UNKNOWN' or settle_operation.operation_id is distinct from (celeriac.past_incident(
               settle_operation.task_id, settle_operation.worker_id, settle_operation.fencing_token)).operation_id then
            perform celeriac.refuse_write(settle_operation.task_id, settle_operation.worker_id, settle_operation.fencing_token,
                                          session_user, null);
        end if;
        return query select settle_operation.operation_id, 'UNKNOWN';
        return;
    end if;
    select o.* into op from celeriac.operation o
     where o.id = settle_operation.operation_id and o.task_id = settle_operation.task_id;
    if not found then
        perform celeriac.refuse('invalid', 'the task has no such operation', 'operation_id');
    elsif op.state = 'UNKNOWN' then
        perform celeriac.refuse('invalid', 'the operation is UNKNOWN: a person decides', 'outcome', jsonb_build_object('state', op.state));
    end if;
    op := celeriac.end_operation(op, settle_operation.outcome, came, why, held.fencing_token, celeriac.now());
    if settle_operation.outcome = 'UNKNOWN' then
        perform celeriac.open_incident(held, 'operation_unknown', op.branch, op.ordinal, op.name,
                                       coalesce(why, 'nobody can find out whether it took effect'), '{}', op.id, celeriac.now());
    end if;
    return query select op.id, op.state;
end $$;
