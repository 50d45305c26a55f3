-- block_task: READY -> BLOCKED, a task whose claim found no slot. Leaves an opening: a slot may have come free meanwhile.
create or replace function celeriac.block_task(task_id uuid, task_type text, key text) returns void
language plpgsql volatile as $$
begin
    update celeriac.queue q set state = 'BLOCKED' where q.task_id = block_task.task_id;
    insert into celeriac.opening (task_type, key) values (block_task.task_type, block_task.key);
end $$;
