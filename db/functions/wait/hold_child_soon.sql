-- hold_child_soon: try_child once more, after whoever is at the task, if that takes no longer than 50 ms.
create or replace function celeriac.hold_child_soon(child_id uuid) returns text
language plpgsql volatile set lock_timeout = '50ms' as $$
begin
    perform from celeriac.queue q where q.task_id = hold_child_soon.child_id for key share;
    perform from celeriac.waiting w where w.task_id = hold_child_soon.child_id for key share;
    return celeriac.try_child(hold_child_soon.child_id);
exception when lock_not_available or deadlock_detected then
    return 'BUSY';
end $$;
