-- fetch_tasks: READY -> LOCKED
-- Refuses: invalid, forbidden (a type that the caller may not touch is refused as a whole, never part-served).
-- A claim takes exactly what it returns, best priority first, then oldest. Among types of equal priority they take turns,
-- and who is first is drawn by lot, so a type with a backlog cannot keep another waiting. `more` of the first says
-- that the answer was cut by max_bytes. Should beat be dead, a fetch that finds too little expires and promotes a bounded few by itself.
create or replace function celeriac.fetch_tasks(
    worker_id text, task_types text[], max_tasks integer, lock_duration_ms bigint default null, versions jsonb default null,
    max_bytes bigint default null, principal text default null, only_types text[] default null)
returns setof celeriac.leased_task
language plpgsql security definer set search_path = celeriac, pg_temp
-- A generic plan knows no LIMIT and would guess at joins; each of these reads the few rows it wants by index.
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    me text := coalesce(fetch_tasks.principal, session_user);
    room bigint := coalesce(fetch_tasks.max_bytes, 4194304);
    want integer := fetch_tasks.max_tasks;
    claimed celeriac.leased_task[] := '{}';
    batch celeriac.leased_task[];
    used bigint;
    cut boolean := false;
    stream celeriac.served_stream;
begin
    perform celeriac.check_fetch(fetch_tasks.worker_id, fetch_tasks.task_types, fetch_tasks.max_tasks,
                                 fetch_tasks.lock_duration_ms, fetch_tasks.versions, fetch_tasks.only_types);
    for pass in 1 .. 2 loop
        for stream in select * from celeriac.share_out(fetch_tasks.task_types, fetch_tasks.versions, want) loop
            select array_agg(c), coalesce(sum(c.payload_bytes), 0) into batch, used
              from celeriac.claim_ready(stream, fetch_tasks.worker_id, me, fetch_tasks.lock_duration_ms, room, cardinality(claimed) = 0) c;
            claimed := claimed || batch;
            room := room - used;
            -- A stream that was seen to have work and gives none beside another's had nothing that fits.
            cut := cut or coalesce(batch[1].more, pass = 1 and cardinality(claimed) > 0);
        end loop;
        want := fetch_tasks.max_tasks - cardinality(claimed);
        exit when pass = 2 or want = 0 or cut or room <= 0;
        perform celeriac.sweep_if_late(10);
    end loop;
    if cut then
        claimed[1].more := true;
    end if;
    return query select c.* from unnest(claimed) c;
end $$;
