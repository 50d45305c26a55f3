-- see_lease: the queue row of a task if this very worker holds it now, without a lock; else refuses and says why.
-- For reads under a lease: what they answer may be old by the time it arrives, and every write looks again (hold_lease).
create or replace function celeriac.see_lease(task_id uuid, worker_id text, fencing_token bigint) returns celeriac.queue
language plpgsql volatile as $$
declare
    held celeriac.queue;
begin
    select q.* into held from celeriac.queue q
     where q.task_id = see_lease.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > celeriac.now()
       and q.lease_owner = see_lease.worker_id and q.lease_principal = session_user
       and q.fencing_token = see_lease.fencing_token;
    if not found then
        perform celeriac.refuse_write(see_lease.task_id, see_lease.worker_id, see_lease.fencing_token, session_user, null);
    end if;
    return held;
end $$;
