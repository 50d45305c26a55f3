-- conclude_task: what follows when a task has ended, whichever way: it waits for nothing any more, and whoever waits for it
-- is woken. `resumed` says whether it ever waited, so that a task that just works is not looked up.
create or replace function celeriac.conclude_task(task_id uuid, resumed boolean) returns void
language plpgsql volatile as $$
begin
    if resumed then
        delete from celeriac.wait w where w.task_id = conclude_task.task_id;
    end if;
    if (exists (select from celeriac.wait w where w.child_id = conclude_task.task_id and w.armed)
        and not celeriac.tell_waiters(conclude_task.task_id)) or celeriac.sees_the_past() then
        perform celeriac.leave_follow_up('child', conclude_task.task_id);
    end if;
end $$;
