-- ripen_tasks: SCHEDULED -> READY | BLOCKED, a bounded batch of what is due; rows that someone holds are left for the next pass.
create or replace function celeriac.ripen_tasks(max_tasks integer)
returns table (promoted integer, task_types text[])
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    due record;
begin
    promoted := 0; task_types := '{}';
    for due in
        select q.task_id, q.task_type, q.version, q.concurrency_key from celeriac.queue q where q.state = 'SCHEDULED' and q.run_at <= moment
         order by q.run_at, q.task_id limit max_tasks for update skip locked
    loop
        update celeriac.queue q
           set state = case when due.concurrency_key is null then 'READY'
                            else celeriac.ready_state(due.task_type, due.concurrency_key, due.version) end
         where q.task_id = due.task_id;
        promoted := promoted + 1;
        if due.task_type <> all (task_types) then
            task_types := task_types || due.task_type;
        end if;
    end loop;
    if promoted > 0 then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
