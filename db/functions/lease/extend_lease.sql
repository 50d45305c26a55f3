-- extend_lease: LOCKED -> LOCKED, its end moved to now + lock_duration_ms (prolong_lease).
-- Refuses: a lease that is another's, expired, taken away or ended (see lease_refusal).
create or replace function celeriac.extend_lease(
    task_id uuid, worker_id text, lock_duration_ms bigint, fencing_token bigint default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.extended_lease
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    me text := coalesce(extend_lease.principal, session_user);
    ends_at timestamptz;
begin
    perform celeriac.check_name(extend_lease.worker_id, 'worker_id'),
            celeriac.check_range(extend_lease.lock_duration_ms, 1, 2592000000, 'lock_duration_ms');
    ends_at := celeriac.prolong_lease(extend_lease.task_id, extend_lease.worker_id, extend_lease.fencing_token,
                                      extend_lease.lock_duration_ms, me, only_types);
    if ends_at is null then
        perform celeriac.refuse_write(extend_lease.task_id, extend_lease.worker_id, extend_lease.fencing_token, me, only_types);
    end if;
    return query select extend_lease.task_id, ends_at, extend_lease.lock_duration_ms;
end $$;
