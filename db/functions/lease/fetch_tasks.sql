-- fetch_tasks: READY -> LOCKED
-- Refuses: invalid, forbidden (a type that the caller may not touch is refused as a whole, never part-served).
-- What is taken, and in which order, see claim_tasks. `more` of the first says that the answer was cut by max_bytes.
create or replace function celeriac.fetch_tasks(
    worker_id text, task_types text[], max_tasks integer, lock_duration_ms bigint default null, versions jsonb default null,
    max_bytes bigint default null, principal text default null, only_types text[] default null)
returns setof celeriac.leased_task
language plpgsql security definer set search_path = celeriac, pg_temp
-- A generic plan knows no LIMIT and would guess at joins; each of these reads the few rows it wants by index.
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform celeriac.check_fetch(fetch_tasks.worker_id, fetch_tasks.task_types, fetch_tasks.max_tasks,
                                 fetch_tasks.lock_duration_ms, fetch_tasks.versions, fetch_tasks.only_types);
    return query
    select c.* from unnest(celeriac.claim_tasks(
        fetch_tasks.worker_id, fetch_tasks.task_types, fetch_tasks.max_tasks, fetch_tasks.lock_duration_ms, fetch_tasks.versions,
        coalesce(fetch_tasks.max_bytes, 4194304), coalesce(fetch_tasks.principal, session_user))) c;
end $$;
