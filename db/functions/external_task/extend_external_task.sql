-- extend_external_task: LOCKED -> LOCKED, its end moved to now + lock_ms; the rest after a failure is extended as well, as in Camunda.
-- Refuses: not_found, lease_lost, lease_expired, suspended.
create or replace function celeriac.extend_external_task(
    task_id uuid, worker_id text, lock_ms bigint, principal text default null, only_types text[] default null)
returns setof celeriac.extended_lease
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(extend_external_task.principal, session_user);
    moment timestamptz;
    held celeriac.queue;
begin
    perform celeriac.check_range(lock_ms, 1, 3155760000000, 'lock_ms');
    held := celeriac.hold_to_end(task_id, worker_id, me, only_types, false);
    moment := celeriac.now();
    if held.state = 'FAILED' or coalesce(held.lease_expires_at, held.last_until) <= moment then
        perform celeriac.refuse_external(held, worker_id, 'lease_expired', 'the lock of the task has expired');
    elsif held.state = 'LOCKED' then
        perform celeriac.prolong_lease(task_id, worker_id, null, lock_ms, me, only_types);
    else
        perform celeriac.rest_longer(held, lock_ms, moment);
    end if;
    return query select task_id, moment + lock_ms * interval '1 millisecond', lock_ms;
end $$;
