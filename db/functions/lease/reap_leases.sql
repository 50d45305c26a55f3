-- reap_leases: LOCKED -> READY | FAILED (more lost leases than the budget allows: such a payload kills its workers)
-- Bounded, and judged in the statement that locks: a lease that was extended since is only looked at again when it ends;
-- a row that someone else holds is left for the next pass.
create or replace function celeriac.reap_leases(max_tasks integer)
returns table (expired integer, failed integer, rearmed integer, task_types text[])
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    due celeriac.queue;
begin
    expired := 0; failed := 0; rearmed := 0; task_types := '{}';
    for due in
        select q.* from celeriac.queue q where q.state = 'LOCKED' and q.reap_at <= moment
         order by q.reap_at, q.task_id limit max_tasks for update skip locked
    loop
        if due.lease_expires_at > moment then
            update celeriac.queue q set reap_at = due.lease_expires_at where q.task_id = due.task_id;
            rearmed := rearmed + 1;
        elsif celeriac.end_lost(due, moment) then
            expired := expired + 1;
            failed := failed + 1;
        else
            expired := expired + 1;
            if due.task_type <> all (task_types) then
                task_types := task_types || due.task_type;
            end if;
        end if;
    end loop;
    if task_types <> '{}' then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
