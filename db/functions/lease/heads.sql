-- heads: the priorities of the first `want` ready tasks of a stream, in their order, without locking: those above the
-- place where the stream begins, then those from there on. Null when there are none.
create or replace function celeriac.heads(stream celeriac.served_stream, want integer) returns integer[]
language plpgsql volatile as $$
begin
    return (select array_agg(h.priority) from (
        select * from (
            select q.priority from celeriac.queue q
             where q.task_type = stream.task_type and q.version = stream.version and q.state = 'READY'
               and -q.priority < stream.urgency
             order by -q.priority, q.turn_at, q.task_id limit want) above
        union all
        select * from (
            select q.priority from celeriac.queue q
             where q.task_type = stream.task_type and q.version = stream.version and q.state = 'READY'
               and (-q.priority, q.turn_at) >= (stream.urgency, stream.turn_at)
             order by -q.priority, q.turn_at, q.task_id limit want) onward
        limit want) h);
end $$;
