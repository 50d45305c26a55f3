-- change_limit: what follows when register_task_type has changed how many tasks of a key may be held.
-- The lock waits for claims in flight, which hold it shared (take_slot) and wait for nothing: after it, none that went by the
-- old limit is still to come. Every key whose tasks are BLOCKED is to be looked at again.
create or replace function celeriac.change_limit(task_type text, before integer) returns void
language plpgsql volatile as $$
declare
    its_key text := '';
    one uuid;
begin
    perform pg_advisory_xact_lock(hashtext('celeriac.concurrency'), hashtext(task_type));
    if before is null then
        perform celeriac.adopt_slots(task_type);
    end if;
    loop
        its_key := (select q.concurrency_key from celeriac.queue q
                 where q.task_type = change_limit.task_type and q.concurrency_key > its_key and q.state in ('READY', 'BLOCKED')
                 order by q.concurrency_key limit 1);
        exit when its_key is null;
        if before is null then
            -- What is READY lines up anew, so that thousands of one key do not lie in the way of the claims of others.
            for one in
                select q.task_id from celeriac.queue q
                 where q.task_type = change_limit.task_type and q.concurrency_key = its_key and q.state = 'READY'
                   for update skip locked
            loop
                update celeriac.queue q set state = 'BLOCKED' where q.task_id = one;
            end loop;
        end if;
        insert into celeriac.opening (task_type, key) values (change_limit.task_type, its_key);
    end loop;
end $$;
