-- hold_awaited: holds still what a task is about to wait for, until it is written down that it does: no child ends, no signal
-- is sent meanwhile. Children first, each in the order of ids, of locks. Answers with the children that could not be held.
create or replace function celeriac.hold_awaited(asked celeriac.asked_wait[]) returns uuid[]
language plpgsql volatile as $$
declare
    child_id uuid;
    state text;
    lock bigint;
    busy uuid[] := '{}';
begin
    for child_id in select distinct a.child_id from unnest(asked) a where a.kind = 'task' order by 1 loop
        -- After some, nobody is waited for any more: each may take 50 ms.
        state := case when cardinality(busy) < 5 then celeriac.hold_child(child_id) else celeriac.try_child(child_id) end;
        if state = 'BUSY' then
            busy := busy || child_id;
        end if;
    end loop;
    for lock in select distinct celeriac.signal_lock(a.topic, a.key) from unnest(asked) a where a.kind = 'signal' order by 1 loop
        perform pg_advisory_xact_lock(lock);
    end loop;
    return busy;
end $$;
