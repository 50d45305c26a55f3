-- pick_ready: locks the first ready tasks of a stream in their order, as many as its slots: those above the place where
-- the stream begins (it may have moved on for lower priorities only), then those from there on. Rows are locked one at a
-- time as the limit takes them, so none is locked in vain. Of a stream with `chosen` tasks only those.
create or replace function celeriac.pick_ready(stream celeriac.served_stream) returns setof celeriac.picked_task
language plpgsql volatile as $$
begin
    if stream.chosen is not null then
        return query
        select q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key from celeriac.queue q
         where q.task_id = any (stream.chosen) and q.task_type = stream.task_type and q.version = stream.version and q.state = 'READY'
         order by -q.priority, q.turn_at, q.task_id limit stream.slots for update skip locked;
        return;
    end if;
    return query
    select * from (
        select * from (
            select q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key from celeriac.queue q
             where q.task_type = stream.task_type and q.version = stream.version and q.state = 'READY'
               and -q.priority < stream.urgency
             order by -q.priority, q.turn_at, q.task_id limit stream.slots for update skip locked) above
        union all
        select * from (
            select q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key from celeriac.queue q
             where q.task_type = stream.task_type and q.version = stream.version and q.state = 'READY'
               and (-q.priority, q.turn_at) >= (stream.urgency, stream.turn_at)
             order by -q.priority, q.turn_at, q.task_id limit stream.slots for update skip locked) onward) picked
     limit stream.slots;
end $$;
