-- hold_lease: the queue row of a task, locked, if this very worker holds it now; else refuses and says why.
-- Every write under a lease begins here: nobody can take the lease away until the transaction ends.
create or replace function celeriac.hold_lease(task_id uuid, worker_id text, fencing_token bigint) returns celeriac.queue
language plpgsql volatile as $$
declare
    held celeriac.queue := celeriac.try_lease(task_id, worker_id, fencing_token);
begin
    if held.task_id is null then
        perform celeriac.refuse_write(hold_lease.task_id, hold_lease.worker_id, hold_lease.fencing_token, session_user, null);
    end if;
    return held;
end $$;
