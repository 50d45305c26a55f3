-- stop_tree: stop_task and stop_children for a task that a cancel of its parent has left to follow; false when somebody is at it.
create or replace function celeriac.stop_tree(task_id uuid, why text, compensate boolean, principal text) returns boolean
language plpgsql volatile as $$
begin
    if celeriac.stop_task(task_id, why, compensate, principal, false) = 'BUSY' then
        return false;
    end if;
    perform celeriac.stop_children(task_id, why, compensate, principal);
    return true;
end $$;
