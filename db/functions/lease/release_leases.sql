-- release_leases: LOCKED -> READY, every lease that this worker holds, as release_task does: a process that must stop at once.
-- At most 1000 a call; call again while that many were released. A lease that has expired is left to expire_leases.
create or replace function celeriac.release_leases(worker_id text) returns table (released integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    one uuid;
    held celeriac.queue;
    task_types text[] := '{}';
begin
    perform celeriac.check_name(release_leases.worker_id, 'worker_id');
    released := 0;
    -- All leases are looked at: an index of their owners would cost every claim, and a stop is rare.
    -- Locked in the order of the ids, as every batch locks.
    for one in
        select m.task_id from (
            select q.task_id from celeriac.queue q
             where q.reap_at is not null and q.lease_owner = release_leases.worker_id and q.lease_principal = session_user
               and q.lease_expires_at > moment
             limit 1000) m
         order by m.task_id
    loop
        select q.* into held from celeriac.queue q
         where q.task_id = one and q.state = 'LOCKED' and q.lease_expires_at > moment
           and q.lease_owner = release_leases.worker_id and q.lease_principal = session_user
           for update;
        if found then
            perform celeriac.give_back(held, moment);
            released := released + 1;
            task_types := task_types || held.task_type;
        end if;
    end loop;
    if released > 0 then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
