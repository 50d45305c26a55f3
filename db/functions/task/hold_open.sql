-- hold_open: the queue row of an open task, locked; of one that waits only its task_id, with its row of `waiting` locked; all
-- null when there is neither, or when somebody is at it, unless `patient`: then it waits for whoever that is.
create or replace function celeriac.hold_open(task_id uuid, patient boolean) returns celeriac.queue
language plpgsql volatile as $$
declare
    hot celeriac.queue;
begin
    if patient then
        select q.* into hot from celeriac.queue q where q.task_id = hold_open.task_id for update;
        if not found then
            select w.task_id into hot.task_id from celeriac.waiting w where w.task_id = hold_open.task_id for update;
        end if;
    else
        select q.* into hot from celeriac.queue q where q.task_id = hold_open.task_id for update skip locked;
        if not found then
            select w.task_id into hot.task_id from celeriac.waiting w where w.task_id = hold_open.task_id for update skip locked;
        end if;
    end if;
    return hot;
end $$;
