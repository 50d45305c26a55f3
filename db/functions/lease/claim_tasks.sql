-- claim_tasks: READY -> LOCKED, what fetch_tasks and complete_and_fetch hand out, once their arguments are checked.
-- A claim takes exactly what it returns, best priority first, then oldest. Among types of equal priority they take turns,
-- and who is first is drawn by lot, so a type with a backlog cannot keep another waiting. Should beat be dead, a fetch
-- that finds too little expires and promotes a bounded few by itself.
-- `rates`: how many tasks each rate-limited type may give yet. The first pass holds them (hold_rates); after that nothing here
-- may wait, so there is no upkeep then, and the second pass takes in no further ones.
-- `topics`: what a worker of the Camunda face asks of each type: its lock_ms, and with `choosy` also which tasks (choose_ready).
create or replace function celeriac.claim_tasks(
    worker_id text, task_types text[], max_tasks integer, lock_duration_ms bigint, versions jsonb, room bigint, principal text,
    topics jsonb default null, on_loss text default null, choosy boolean default false, sorting text default null,
    use_priority boolean default true)
returns celeriac.leased_task[]
language plpgsql volatile as $$
declare
    limited text[] := '{}';
    rates jsonb := '{}';
    admitted celeriac.admitted_task[];
    want integer := claim_tasks.max_tasks;
    claimed celeriac.leased_task[] := '{}';
    batch celeriac.leased_task[];
    used bigint;
    cut boolean := false;
    served celeriac.served_stream[];
    stream celeriac.served_stream;
begin
    -- Asked here and not in a function: this look is all that limits cost a claim of types that have none.
    if exists (select from celeriac.task_type t
                where t.name = any (task_types) and (t.concurrency is not null or t.rate_tasks is not null)) then
        limited := celeriac.limited_types(task_types);
        admitted := array(select a from celeriac.open_slots(limited, 100) a);
        task_types := celeriac.within_rate(task_types);
    end if;
    for pass in 1 .. 2 loop
        if choosy then
            served := array(select s from celeriac.choose_ready(task_types, topics, want, sorting, use_priority) s);
        else
            served := array(select s from celeriac.share_out(task_types, claim_tasks.versions, want) s);
        end if;
        if limited <> '{}' and pass = 1 then
            rates := celeriac.hold_rates(array(select s.task_type from unnest(served) s));
        end if;
        foreach stream in array served loop
            if rates <> '{}' then
                stream.slots := least(stream.slots, (rates ->> stream.task_type)::bigint);
            end if;
            select array_agg(c), coalesce(sum(c.payload_bytes), 0) into batch, used
              from celeriac.claim_ready(stream, claim_tasks.worker_id, claim_tasks.principal,
                                        coalesce((topics -> stream.task_type ->> 'lock_ms')::bigint, claim_tasks.lock_duration_ms),
                                        room, cardinality(claimed) = 0, claim_tasks.on_loss) c;
            claimed := claimed || batch;
            room := room - used;
            -- A stream that was seen to have work and gives none beside another's had nothing that fits.
            cut := cut or coalesce(batch[1].more, pass = 1 and cardinality(claimed) > 0 and stream.task_type <> all (limited));
            if rates ? stream.task_type then
                rates := celeriac.spend_rate(rates, stream.task_type, coalesce(cardinality(batch), 0));
            end if;
        end loop;
        want := claim_tasks.max_tasks - cardinality(claimed);
        exit when pass = 2 or want = 0 or cut or room <= 0;
        if limited <> '{}' then
            task_types := celeriac.types_left(task_types, rates);
        end if;
        if rates = '{}' then
            perform celeriac.sweep_if_late(10);
        end if;
    end loop;
    if cut then
        claimed[1].more := true;
    end if;
    if limited <> '{}' then
        perform celeriac.ring_for_others(admitted, claimed);
    end if;
    return claimed;
end $$;
