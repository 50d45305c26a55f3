-- note_handed_out: adds to what a rate-limited type has handed out of late. What is over is forgotten; what comes within a
-- fiftieth of the period after the beginning of a stretch belongs to that stretch, so there are about fifty at most.
create or replace function celeriac.note_handed_out(task_type text, count integer, moment timestamptz) returns void
language plpgsql volatile as $$
declare
    period interval := (select t.rate_ms * interval '1 millisecond' from celeriac.task_type t where t.name = note_handed_out.task_type);
    spent celeriac.rate := (select r from celeriac.rate r where r.task_type = note_handed_out.task_type);
    newest integer;
begin
    while cardinality(spent.tasks) > 0 and not (spent.last_at[1] > moment - period and spent.first_at[1] <= moment) loop
        spent.first_at := spent.first_at[2:];
        spent.last_at := spent.last_at[2:];
        spent.tasks := spent.tasks[2:];
    end loop;
    newest := cardinality(spent.tasks);
    if newest > 0 and moment between spent.first_at[newest] and spent.first_at[newest] + period / 50 then
        spent.last_at[newest] := greatest(spent.last_at[newest], moment);
        spent.tasks[newest] := spent.tasks[newest] + count;
    else
        spent.first_at := spent.first_at || moment;
        spent.last_at := spent.last_at || moment;
        spent.tasks := spent.tasks || count;
    end if;
    update celeriac.rate r set first_at = spent.first_at, last_at = spent.last_at, tasks = spent.tasks
     where r.task_type = note_handed_out.task_type;
end $$;
