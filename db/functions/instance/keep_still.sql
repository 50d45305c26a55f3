-- keep_still: READY | SCHEDULED | BLOCKED -> SCHEDULED for no time, a task whose instance is suspended; whether it is. For whoever has
-- just put it back into the queue, its row locked: so either this sees the instance suspended, or whoever suspends it sees the task.
create or replace function celeriac.keep_still(task_id uuid) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
    was celeriac.queue;
begin
    select q.* into was
      from celeriac.task t
      join celeriac.instance i on i.id = t.instance_id and i.suspended
      join celeriac.queue q on q.task_id = t.id and q.state <> 'LOCKED'
     where t.id = keep_still.task_id;
    if not found then
        return false;
    end if;
    if was.held_until is null then
        update celeriac.queue q set state = 'SCHEDULED', run_at = 'infinity', held_until = was.run_at where q.task_id = was.task_id;
        perform celeriac.free_slot(was);  -- one that was READY had been let in, and makes room
    end if;
    return true;
end $$;
