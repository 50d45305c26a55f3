-- claim_ready: READY -> LOCKED, for one stream: the rows of fetch_tasks; READY -> BLOCKED, tasks for which their concurrency
-- key has no slot: they are passed over, up to 500 in a call.
-- Locks at most as many rows as the stream has slots, and takes those that fit in `room` bytes; the others stay as they are,
-- but the first always fits, so no big task can block the ones behind it. Every claim draws a new fencing token.
create or replace function celeriac.claim_ready(
    stream celeriac.served_stream, worker_id text, principal text, lock_duration_ms bigint, room bigint, first boolean,
    on_loss text default null)
returns setof celeriac.leased_task
language plpgsql volatile as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    -- Entries of the index that this transaction has read: of ours, and of earlier claims in it.
    read_before bigint := pg_stat_get_xact_tuples_returned('celeriac.queue_ready'::regclass);
    picked celeriac.picked_task[] := array(select p from celeriac.pick_ready(stream) p);
    read_now bigint := pg_stat_get_xact_tuples_returned('celeriac.queue_ready'::regclass) - read_before;
    fitting integer := celeriac.fitting(picked, room, first);
    passed_over integer[] := '{}';  -- places in `picked`
    left_over integer := 500;
    leased celeriac.leased_task;
begin
    if read_now - cardinality(picked) > 2000 then
        perform celeriac.raise_floor(stream, picked[1], moment);
    end if;
    loop
        -- One by one, and each by its key: a join would be planned by statistics that know nothing of dead rows.
        for place in 1 .. fitting loop
            if picked[place].concurrency_key is not null
               and not celeriac.take_slot(stream.task_type, picked[place].concurrency_key, picked[place].task_id) then
                perform celeriac.block_task(picked[place].task_id, stream.task_type, picked[place].concurrency_key);
                passed_over := passed_over || place;
                continue;
            end if;
            update celeriac.queue q
               set state = 'LOCKED', fencing_token = nextval('celeriac.fencing_token'), attempts = q.attempts + 1,
                   lease_owner = claim_ready.worker_id, lease_principal = claim_ready.principal,
                   leased_at = moment, lease_expires_at = moment + l.lease, reap_at = moment + l.lease,
                   last_owner = null, last_principal = null, last_until = null, on_loss = claim_ready.on_loss
              from celeriac.task t
             cross join lateral celeriac.lease_of(t.task_type, t.policy, claim_ready.lock_duration_ms) l
             where q.task_id = picked[place].task_id and t.id = picked[place].task_id
            returning q.task_id, t.token_id, t.instance_id, q.task_type, q.version, t.business_key, t.variables, q.fencing_token,
                      q.lease_expires_at, l.lease_ms, q.retries, q.attempts, q.priority, t.created_at, q.payload_bytes,
                      fitting < cardinality(picked), q.resumed, q.undoing, q.expirations, t.lives
                 into leased;
            return next leased;
        end loop;
        -- Once more for those that were passed over, if the answer has room for more and something may be behind them.
        left_over := left_over - cardinality(passed_over);
        exit when passed_over = '{}' or fitting < cardinality(picked) or left_over <= 0;
        first := first and cardinality(passed_over) = fitting;
        room := room - (select coalesce(sum(picked[p].payload_bytes), 0) from generate_series(1, fitting) p where p <> all (passed_over));
        stream.slots := cardinality(passed_over) + stream.slots - fitting;
        passed_over := '{}';
        picked := array(select p from celeriac.pick_ready(stream) p);
        fitting := celeriac.fitting(picked, room, first);
    end loop;
end $$;
