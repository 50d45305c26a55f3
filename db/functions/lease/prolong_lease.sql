-- prolong_lease: LOCKED -> LOCKED, one lease of extend_lease or extend_leases: when it ends now; null when the write may not.
-- reap_at moves only when the lease gets shorter, so a heartbeat rewrites no index.
create or replace function celeriac.prolong_lease(
    task_id uuid, worker_id text, fencing_token bigint, lock_duration_ms bigint, principal text, only_types text[])
returns timestamptz
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    ends_at timestamptz := moment + prolong_lease.lock_duration_ms * interval '1 millisecond';
begin
    update celeriac.queue q
       set lease_expires_at = ends_at, reap_at = least(q.reap_at, ends_at)
     where q.task_id = prolong_lease.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = prolong_lease.worker_id and q.lease_principal = prolong_lease.principal
       and q.fencing_token = coalesce(prolong_lease.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types);
    return case when found then ends_at end;
end $$;
