-- extend_lease: LOCKED -> LOCKED, its end moved to now + lock_duration_ms.
-- Refuses: a lease that is another's, expired, taken away or ended (see lease_refusal).
-- reap_at moves only when the lease gets shorter, so a heartbeat rewrites no index.
create or replace function celeriac.extend_lease(
    task_id uuid, worker_id text, lock_duration_ms bigint, fencing_token bigint default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.extended_lease
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    lease interval;
begin
    perform celeriac.check_name(extend_lease.worker_id, 'worker_id'),
            celeriac.check_range(extend_lease.lock_duration_ms, 1, 2592000000, 'lock_duration_ms');
    lease := extend_lease.lock_duration_ms * interval '1 millisecond';
    return query
    update celeriac.queue q
       set lease_expires_at = moment + lease, reap_at = least(q.reap_at, moment + lease)
     where q.task_id = extend_lease.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = extend_lease.worker_id and q.lease_principal = coalesce(extend_lease.principal, session_user)
       and q.fencing_token = coalesce(extend_lease.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types)
    returning q.task_id, q.lease_expires_at, extend_lease.lock_duration_ms;
    if not found then
        perform celeriac.refuse_write(extend_lease.task_id, extend_lease.worker_id, extend_lease.fencing_token,
                                      coalesce(extend_lease.principal, session_user), only_types);
    end if;
end $$;
