-- waited_since: since when the best ready tasks of a type's versions wait, the longest of them; null when none is ready.
create or replace function celeriac.waited_since(task_type text) returns timestamptz
language plpgsql stable as $$
begin
    return (select min(head.run_at) from celeriac.streams_of(waited_since.task_type) s
             cross join lateral (select q.run_at from celeriac.queue q
                 where q.task_type = s.task_type and q.version = s.version and q.state = 'READY'
                 order by -q.priority, q.turn_at, q.task_id limit 1) head);
end $$;
