-- bury_task: LOCKED -> FAILED, a dead letter.
create or replace function celeriac.bury_task(held celeriac.queue, error text, moment timestamptz)
returns void language plpgsql volatile as $$
begin
    delete from celeriac.queue q where q.task_id = held.task_id;
    update celeriac.task t
       set state = 'FAILED', error = bury_task.error, started_at = held.leased_at, ended_at = moment,
           fencing_token = held.fencing_token, worker_id = held.lease_owner, principal = held.lease_principal,
           attempts = held.attempts, expirations = held.expirations
     where t.id = held.task_id;
    perform celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed);
end $$;
