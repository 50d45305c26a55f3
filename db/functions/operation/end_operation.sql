-- end_operation: writes down what came of an operation, and its step when it is DONE or FAILED. Whoever calls it holds the
-- task's queue row or its `waiting` row. The same outcome again holds; another one, or one that cannot follow, is refused.
create or replace function celeriac.end_operation(
    op celeriac.operation, outcome text, result jsonb, error text, fencing_token bigint, moment timestamptz)
returns celeriac.operation
language plpgsql volatile as $$
begin
    if op.state = outcome and celeriac.result_of(op) is not distinct from end_operation.result then
        return op;
    elsif op.state not in ('STARTED', 'UNKNOWN') and not (op.state = 'NOT_DONE' and outcome = 'FAILED') then
        perform celeriac.refuse('invalid', format('the operation is %s%s', op.state,
            case when op.state = outcome then ' with another result' else '' end), 'outcome', jsonb_build_object('state', op.state));
    end if;
    op.state := case when outcome = 'ERRED' then op.state else outcome end;
    op.ended_at := case when op.state <> 'STARTED' then moment end;
    op.unknown_at := case when op.state = 'UNKNOWN' then moment end;
    op.error := end_operation.error;
    op.fencing_token := coalesce(end_operation.fencing_token, op.fencing_token);
    update celeriac.operation o
       set state = op.state, ended_at = op.ended_at, error = op.error, fencing_token = op.fencing_token, unknown_at = op.unknown_at
     where o.id = op.id;
    if op.state in ('DONE', 'FAILED') then
        perform celeriac.write_step(op.task_id, op.branch, op.ordinal, 'operation', op.name, end_operation.result,
                    case when op.state = 'FAILED' then coalesce(op.error, 'it failed') end, end_operation.fencing_token, moment);
    end if;
    return op;
end $$;
