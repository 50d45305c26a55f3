-- line_up: says of the tasks about to be enqueued which are READY and which BLOCKED, behind others of their concurrency key.
-- As ready_state, for all of one key at once; the tasks of a type without a limit stay as they are.
create or replace function celeriac.line_up(asked celeriac.asked_task[], kept integer[]) returns celeriac.asked_task[]
language plpgsql volatile as $$
declare
    line record;
    room integer;
begin
    if not exists (select from unnest(asked) a where a.concurrency_key is not null) then
        return asked;
    end if;
    for line in
        select a.task_type, a.concurrency_key, a.version, array_agg(a.ordinal order by -a.priority, a.turn_at, a.ordinal) as ordinals
          from unnest(asked) a join celeriac.task_type t on t.name = a.task_type and t.concurrency is not null
         where a.concurrency_key is not null and a.state = 'READY' and (a.idempotency_key is null or a.ordinal = any (kept))
         group by a.task_type, a.concurrency_key, a.version
    loop
        room := case when exists (select from celeriac.queue q
                                   where q.task_type = line.task_type and q.concurrency_key = line.concurrency_key
                                     and q.version = line.version and q.state = 'BLOCKED') then 0
                     else celeriac.slots_left(line.task_type, line.concurrency_key, line.version) end;
        for place in greatest(room, 0) + 1 .. cardinality(line.ordinals) loop
            asked[line.ordinals[place] + 1].state := 'BLOCKED';
        end loop;
        if room < cardinality(line.ordinals) then
            insert into celeriac.opening (task_type, key) values (line.task_type, line.concurrency_key);
        end if;
    end loop;
    return asked;
end $$;
