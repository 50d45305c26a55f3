-- requeue_task: LOCKED -> READY | SCHEDULED, behind what became due before it.
create or replace function celeriac.requeue_task(held celeriac.queue, retries integer, due_at timestamptz, moment timestamptz)
returns void language plpgsql volatile as $$
begin
    update celeriac.queue q
       set state = case when due_at > moment then 'SCHEDULED' else 'READY' end, run_at = due_at, turn_at = due_at,
           retries = requeue_task.retries,
           lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
     where q.task_id = held.task_id;
    perform celeriac.free_slot(held);
    if due_at <= moment then
        perform celeriac.ring(array[held.task_type]);
    end if;
end $$;
