-- let_stand: the open tasks of an instance, which the caller has locked and suspended or resumed, stand still (keep_still) or are due
-- as they were. Waits for whoever is at one of them: what they do to it is seen here. A held one is left to its worker.
create or replace function celeriac.let_stand(instance_id uuid, still boolean) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
    one uuid;
    held celeriac.queue;
    task_types text[] := '{}';
begin
    for one in
        select t.id from celeriac.token k join celeriac.task t on t.token_id = k.uid and t.state = 'OPEN'
         where k.instance_id = let_stand.instance_id order by t.id
    loop
        -- Twice: what was just begun to be undone has left its row for another.
        for time in 1 .. 2 loop
            select q.* into held from celeriac.queue q where q.task_id = one for update;
            exit when found;
        end loop;
        if still then
            perform celeriac.keep_still(one);
        elsif held.held_until is not null then
            update celeriac.queue q
               set run_at = held.held_until, held_until = null,
                   state = case when held.held_until > celeriac.now() then 'SCHEDULED'
                                else celeriac.ready_state(held.task_type, held.concurrency_key, held.version) end
             where q.task_id = one;
            task_types := task_types || held.task_type;
        end if;
    end loop;
    if task_types <> '{}' then
        perform celeriac.ring(task_types);
    end if;
end $$;
