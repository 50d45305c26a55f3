-- expire_leases: LOCKED -> READY | FAILED, a bounded batch (reap_leases); the chore of that name.
create or replace function celeriac.expire_leases(max_tasks integer default 500)
returns table (expired integer, failed integer, rearmed integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.note_chore('expire_leases');
    return query select * from celeriac.reap_leases(max_tasks);
end $$;
