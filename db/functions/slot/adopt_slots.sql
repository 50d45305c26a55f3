-- adopt_slots: gives the tasks of a type that are held while it gets a limit their slots, also above the limit: they count.
create or replace function celeriac.adopt_slots(task_type text) returns void
language plpgsql volatile as $$
declare
    one uuid;
    its_key text;
begin
    -- In the order of the ids, as every batch locks.
    for one in
        select l.task_id from (
            select q.task_id from celeriac.queue q
             where q.reap_at is not null and q.task_type = adopt_slots.task_type and q.concurrency_key is not null
             limit 100000) l
         order by l.task_id
    loop
        select q.concurrency_key into its_key from celeriac.queue q where q.task_id = one and q.state = 'LOCKED' for update;
        if found then
            insert into celeriac.slot (task_type, key, number, task_id)
            select adopt_slots.task_type, its_key, coalesce(max(s.number), 0) + 1, one
              from celeriac.slot s where s.task_type = adopt_slots.task_type and s.key = its_key
                on conflict do nothing;
        end if;
    end loop;
end $$;
