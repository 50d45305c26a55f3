-- stop_task_soon: stop_task for one that somebody is at, if that takes no longer than 50 ms; else BUSY. Whoever
-- calls it holds other tasks, and must not wait for long for one that may be waiting for those.
create or replace function celeriac.stop_task_soon(task_id uuid, why text, compensate boolean, principal text) returns text
language plpgsql volatile set lock_timeout = '50ms' as $$
begin
    return celeriac.stop_task(task_id, why, compensate, principal, true);
exception when lock_not_available or deadlock_detected then
    return 'BUSY';
end $$;
