-- requeue_task: LOCKED -> READY | SCHEDULED, behind what became due before it; BLOCKED when others of its concurrency key did.
create or replace function celeriac.requeue_task(held celeriac.queue, retries integer, due_at timestamptz, moment timestamptz)
returns void language plpgsql volatile as $$
begin
    perform celeriac.free_slot(held);
    update celeriac.queue q
       set state = case when due_at > moment then 'SCHEDULED' when held.concurrency_key is null then 'READY'
                        else celeriac.ready_state(held.task_type, held.concurrency_key, held.version) end,
           run_at = due_at, turn_at = due_at, retries = requeue_task.retries, retries_told = true,
           last_owner = held.lease_owner, last_principal = held.lease_principal, last_until = due_at, on_loss = null,
           lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
     where q.task_id = held.task_id;
    if not celeriac.keep_still(held.task_id) and due_at <= moment then
        perform celeriac.ring(array[held.task_type]);
    end if;
end $$;
