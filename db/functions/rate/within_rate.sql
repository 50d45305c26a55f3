-- within_rate: those of these types that may hand out a task now, looked at without waiting; where none may, a ring is asked
-- for, since whoever looks now goes away with nothing.
create or replace function celeriac.within_rate(task_types text[]) returns text[]
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    due celeriac.rate_left;
begin
    for due in select l.* from celeriac.rate_left(task_types, moment) l where l.tasks = 0 loop
        perform celeriac.ring_when_allowed(due, moment);
        task_types := array_remove(task_types, due.task_type);
    end loop;
    return task_types;
end $$;
