-- lay_to_rest: LOCKED -> WAITING, the attempt given back: a task that waits has no worker, no lease and no slot.
-- What it waits for stands in `wait`; the caller arms it in the same transaction.
create or replace function celeriac.lay_to_rest(held celeriac.queue, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    delete from celeriac.queue q where q.task_id = held.task_id;
    insert into celeriac.waiting (task_id, since, turn_at, version, priority, payload_bytes, retries, attempts, expirations,
                                  undoing, task_type, fencing_token)
    values (held.task_id, moment, held.turn_at, held.version, held.priority, held.payload_bytes, held.retries, held.attempts - 1,
            held.expirations, held.undoing, held.task_type, held.fencing_token);
    update celeriac.task t set state = 'WAITING', attempts = held.attempts - 1, expirations = held.expirations
     where t.id = held.task_id;
    perform celeriac.free_slot(held);
end $$;
