-- follow_up: does a bounded batch of what other transitions have left to follow, oldest first; what meets somebody stays for
-- the next pass. Answers with the types of tasks that were woken.
create or replace function celeriac.follow_up(max_rows integer) returns text[]
language plpgsql volatile as $$
declare
    due celeriac.follow_up;
    task_types text[] := '{}';
    done boolean;
    more text[];
begin
    for due in select f.* from celeriac.follow_up f order by f.id limit max_rows for update skip locked loop
        more := '{}';
        if due.kind = 'child' then
            done := case celeriac.try_child(due.subject) when 'ENDED' then celeriac.tell_waiters(due.subject)
                                                         when 'HELD' then true else false end;
        elsif due.kind = 'signal' then
            select d.done, d.task_types into done, more from celeriac.deliver_again(due.subject) d;
        else
            done := celeriac.stop_tree(due.subject, due.reason, due.compensate, due.principal);
        end if;
        task_types := task_types || more;
        if done then
            delete from celeriac.follow_up f where f.id = due.id;
        end if;
    end loop;
    return task_types;
end $$;
