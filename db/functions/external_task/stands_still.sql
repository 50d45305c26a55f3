-- stands_still: whether the instance of a task is suspended.
create or replace function celeriac.stands_still(task_id uuid) returns boolean
language plpgsql volatile as $$
begin
    return exists (select from celeriac.task t join celeriac.instance i on i.id = t.instance_id
                    where t.id = stands_still.task_id and i.suspended);
end $$;
