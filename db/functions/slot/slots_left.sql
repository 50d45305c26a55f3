-- slots_left: how many more tasks of this version may be READY: slots of the key that are free and that no READY task of the
-- version is on its way to. In one statement, so that a task which takes a slot at this moment is counted once.
-- Each version by itself: a task whose version nobody serves keeps no other from the slot.
create or replace function celeriac.slots_left(task_type text, key text, version integer) returns integer
language plpgsql volatile as $$
begin
    return (select l.at_most
                   - (select count(*) from celeriac.slot s where s.task_type = slots_left.task_type and s.key = slots_left.key)
                   - (select count(*) from (
                        select from celeriac.queue q
                         where q.task_type = slots_left.task_type and q.concurrency_key = slots_left.key
                           and q.version = slots_left.version and q.state = 'READY'
                         limit l.at_most) r)
              from (select coalesce((select t.concurrency from celeriac.task_type t where t.name = slots_left.task_type),
                                    1000000) as at_most) l);
end $$;
