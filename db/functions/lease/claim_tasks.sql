-- claim_tasks: READY -> LOCKED, what fetch_tasks and complete_and_fetch hand out, once their arguments are checked.
-- A claim takes exactly what it returns, best priority first, then oldest. Among types of equal priority they take turns,
-- and who is first is drawn by lot, so a type with a backlog cannot keep another waiting. Should beat be dead, a fetch
-- that finds too little expires and promotes a bounded few by itself.
create or replace function celeriac.claim_tasks(
    worker_id text, task_types text[], max_tasks integer, lock_duration_ms bigint, versions jsonb, room bigint, principal text)
returns celeriac.leased_task[]
language plpgsql volatile as $$
declare
    want integer := claim_tasks.max_tasks;
    claimed celeriac.leased_task[] := '{}';
    batch celeriac.leased_task[];
    used bigint;
    cut boolean := false;
    stream celeriac.served_stream;
begin
    for pass in 1 .. 2 loop
        for stream in select * from celeriac.share_out(claim_tasks.task_types, claim_tasks.versions, want) loop
            select array_agg(c), coalesce(sum(c.payload_bytes), 0) into batch, used
              from celeriac.claim_ready(stream, claim_tasks.worker_id, claim_tasks.principal, claim_tasks.lock_duration_ms,
                                        room, cardinality(claimed) = 0) c;
            claimed := claimed || batch;
            room := room - used;
            -- A stream that was seen to have work and gives none beside another's had nothing that fits.
            cut := cut or coalesce(batch[1].more, pass = 1 and cardinality(claimed) > 0);
        end loop;
        want := claim_tasks.max_tasks - cardinality(claimed);
        exit when pass = 2 or want = 0 or cut or room <= 0;
        perform celeriac.sweep_if_late(10);
    end loop;
    if cut then
        claimed[1].more := true;
    end if;
    return claimed;
end $$;
