-- stop_children: stop_task for all tasks that were asked for from inside one, and from inside those, parents first. Ended ones
-- are passed through: what they asked for may be open still. Never waits for long: those that somebody is at, and all beyond
-- the first 10 000, are left to follow.
create or replace function celeriac.stop_children(parent_id uuid, why text, compensate boolean, principal text) returns void
language plpgsql volatile as $$
declare
    level uuid[] := array[stop_children.parent_id];
    below uuid[];
    parent uuid;
    child uuid;
    seen integer := 0;
    waited integer := 0;
    state text;
begin
    while cardinality(level) > 0 loop
        below := '{}';
        foreach parent in array level loop
            for child in select c.task_id from celeriac.child c where c.parent_id = parent order by c.task_id loop
                seen := seen + 1;
                state := case when seen <= 10000 then celeriac.stop_task(child, why, compensate, principal, false) else 'BUSY' end;
                if state = 'BUSY' and waited < 5 and seen <= 10000 then
                    waited := waited + 1;
                    state := celeriac.stop_task_soon(child, why, compensate, principal);
                end if;
                if state = 'BUSY' then
                    perform celeriac.leave_follow_up('cancel', child, why, compensate, principal);
                else
                    below := below || child;
                end if;
            end loop;
        end loop;
        level := below;
    end loop;
end $$;
