-- lock_external_task: READY | SCHEDULED | BLOCKED | LOCKED but expired -> LOCKED, for a worker that asks for this very task; one that it
-- holds, or held last, is extended. Refuses: not_found; lease_lost (another worker's until its lock or its rest ends; one that has
-- FAILED; no slot of its concurrency key). Whether the instance is suspended does not matter, as in Camunda.
create or replace function celeriac.lock_external_task(
    task_id uuid, worker_id text, lock_ms bigint, on_loss text default null, principal text default null, only_types text[] default null)
returns setof celeriac.extended_lease
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(lock_external_task.principal, session_user);
    moment timestamptz;
    held celeriac.queue;
    mine boolean;
begin
    perform celeriac.check_name(worker_id, 'worker_id'), celeriac.check_range(lock_ms, 1, 3155760000000, 'lock_ms'),
            celeriac.check_on_loss(on_loss);
    held := celeriac.hold_external(task_id, only_types);
    moment := celeriac.now();
    mine := celeriac.is_held_by(held, worker_id, me);
    if held.state = 'FAILED' or not (mine or celeriac.is_free(held, moment)) then
        perform celeriac.refuse_external(held, worker_id, 'lease_lost', 'the task is held by another worker, or has failed');
    elsif mine and held.state = 'LOCKED' and held.lease_expires_at > moment then
        perform celeriac.prolong_lease(task_id, worker_id, null, lock_ms, me, only_types);
    else
        if held.state <> 'LOCKED' and held.concurrency_key is not null
           and not celeriac.take_slot(held.task_type, held.concurrency_key, held.task_id) then
            perform celeriac.refuse_external(held, worker_id, 'lease_lost', 'the concurrency key of the task has no free slot');
        end if;
        perform celeriac.take_over(held, worker_id, me, lock_ms, moment, not mine);
    end if;
    update celeriac.queue q set on_loss = lock_external_task.on_loss where q.task_id = held.task_id;
    return query select q.task_id, q.lease_expires_at, lock_ms from celeriac.queue q where q.task_id = held.task_id;
end $$;
