-- begin_operation: nothing | NOT_DONE -> STARTED, written before the effect. `fresh`: do it now. Not fresh: it was begun
-- before, by whomever, and may have taken effect: reconcile it with the plan that is answered (or it has ended long ago).
-- Refuses: a lease that is not held; a task that is being undone; a place of another name, or with a record of another kind.
create or replace function celeriac.begin_operation(
    task_id uuid, worker_id text, fencing_token bigint, branch text, ordinal integer, name text, plan jsonb default null)
returns setof celeriac.begun_operation
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    wanted jsonb := celeriac.read_result(plan, 'plan');
    op celeriac.operation;
begin
    perform celeriac.check_name(begin_operation.worker_id, 'worker_id'), celeriac.check_name(begin_operation.name, 'name'),
            celeriac.check_place(begin_operation.branch, begin_operation.ordinal);
    perform celeriac.hold_onward(begin_operation.task_id, begin_operation.worker_id, begin_operation.fencing_token);
    select o.* into op from celeriac.operation o
     where o.task_id = begin_operation.task_id and o.branch = begin_operation.branch and o.ordinal = begin_operation.ordinal;
    if not found then
        perform celeriac.refuse_step(begin_operation.task_id, begin_operation.branch, begin_operation.ordinal);
        insert into celeriac.operation (id, task_id, started_at, fencing_token, ordinal, attempt, branch, name, state, plan)
        values (celeriac.uuid_v7(moment), begin_operation.task_id, moment, begin_operation.fencing_token, begin_operation.ordinal, 1,
                begin_operation.branch, begin_operation.name, 'STARTED', wanted)
        returning * into op;
        return query select op.id, op.state, op.attempt, true, op.plan, op.error;
    elsif op.name <> begin_operation.name then
        perform celeriac.refuse('invalid', format('%s is the operation %L', celeriac.place_name(op.branch, op.ordinal), op.name), 'name',
            jsonb_build_object('branch', op.branch, 'ordinal', op.ordinal, 'kind', 'operation', 'name', op.name));
    elsif op.state = 'NOT_DONE' then
        update celeriac.operation o
           set state = 'STARTED', attempt = o.attempt + 1, started_at = moment, ended_at = null, error = null, plan = wanted,
               fencing_token = begin_operation.fencing_token
         where o.id = op.id
        returning o.* into op;
        return query select op.id, op.state, op.attempt, true, op.plan, op.error;
    else
        return query select op.id, op.state, op.attempt, false, op.plan, op.error;
    end if;
end $$;
