-- bury_task: LOCKED -> FAILED, a dead letter. Without `undo` its instance never rolls back for it: it gets an incident.
create or replace function celeriac.bury_task(held celeriac.queue, error text, moment timestamptz, undo boolean default true)
returns void language plpgsql volatile as $$
declare
    owner record;
begin
    delete from celeriac.queue q where q.task_id = held.task_id;
    update celeriac.task t
       set state = 'FAILED', error = bury_task.error, started_at = held.leased_at, ended_at = moment,
           fencing_token = held.fencing_token, worker_id = coalesce(held.lease_owner, held.last_owner), principal = coalesce(held.lease_principal, held.last_principal),
           attempts = held.attempts, expirations = held.expirations
     where t.id = held.task_id
    returning t.instance_id, t.token_id into owner;
    perform celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed);
    if owner.instance_id is not null then
        perform celeriac.tell_owner(owner.instance_id, owner.token_id, 'failed', jsonb_build_object('message', bury_task.error)
                    || case when undo then '{}' else '{"undo": false}'::jsonb end);
    end if;
end $$;
