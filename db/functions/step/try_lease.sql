-- try_lease: the queue row of a task, locked, if this very worker holds it now; else all null.
-- Not `for no key update`: a parent that is about to wait for this task (hold_child) must see that somebody is at it. With its
-- share of the row it could come between this lock and the end that follows, and wait for us in turn.
create or replace function celeriac.try_lease(task_id uuid, worker_id text, fencing_token bigint) returns celeriac.queue
language plpgsql volatile as $$
declare
    held celeriac.queue;
begin
    select q.* into held from celeriac.queue q
     where q.task_id = try_lease.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > celeriac.now()
       and q.lease_owner = try_lease.worker_id and q.lease_principal = session_user
       and q.fencing_token = try_lease.fencing_token
       for update;
    return held;
end $$;
