-- wake_task: WAITING -> READY (rouse_task), and a ring for its type.
create or replace function celeriac.wake_task(task_id uuid, moment timestamptz) returns text
language plpgsql volatile as $$
declare
    task_type text := celeriac.rouse_task(wake_task.task_id, moment);
begin
    if task_type is not null then
        perform celeriac.ring(array[task_type]);
    end if;
    return task_type;
end $$;
