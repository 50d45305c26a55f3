-- open_slots: BLOCKED -> READY, for keys with openings, a bounded number of them; of these types, or of all when null.
-- Only for as many as there are slots left, best first, each version by itself. Answers with the tasks that were let in.
-- Waits for nobody, and nobody is forgotten: who frees a slot and who is blocked each leave an opening, so whichever of them
-- commits last, somebody looks after that. An opening stays while its own writer looks, who cannot see what others have
-- not committed and they not what it has done; and when a BLOCKED task that fits could not be locked.
create or replace function celeriac.open_slots(task_types text[], max_openings integer) returns setof celeriac.admitted_task
language plpgsql volatile as $$
declare
    due record;
    stream record;
    let_in integer;
    one uuid;
    done boolean;
begin
    for due in
        select o.task_type, o.key, array_agg(o.id) as ids
          from (select l.task_type, l.key, l.id from celeriac.opening l
                 where task_types is null or l.task_type = any (task_types)
                 order by l.task_type, l.key, l.id limit max_openings for update skip locked) o
         group by o.task_type, o.key
    loop
        done := true;
        for stream in select s.version from celeriac.streams_of(due.task_type) s loop
            let_in := least(celeriac.slots_left(due.task_type, due.key, stream.version), 1000);
            for one in
                select q.task_id from celeriac.queue q
                 where q.task_type = due.task_type and q.concurrency_key = due.key and q.version = stream.version and q.state = 'BLOCKED'
                 order by -q.priority, q.turn_at, q.task_id limit greatest(let_in, 0) for update skip locked
            loop
                update celeriac.queue q set state = 'READY' where q.task_id = one;
                let_in := let_in - 1;
                return next (one, due.task_type)::celeriac.admitted_task;
            end loop;
            done := done and (let_in <= 0 or not exists (
                select from celeriac.queue q
                 where q.task_type = due.task_type and q.concurrency_key = due.key and q.version = stream.version and q.state = 'BLOCKED'));
        end loop;
        if done then
            delete from celeriac.opening o
             where o.task_type = due.task_type and o.key = due.key and o.id = any (due.ids) and o.writer <> pg_current_xact_id();
        end if;
    end loop;
end $$;
