-- candidates: the first `want` ready tasks of a topic that fit what is asked of it and are not among the `seen`, without a lock. In the
-- order of the queue a few hundred are looked at a time, until enough fit; for a business key, and for another order, all at once.
create or replace function celeriac.candidates(
    topic text, asked jsonb, seen uuid[], want integer, sorting text, use_priority boolean)
returns setof celeriac.picked_task
language plpgsql volatile as $$
declare
    stream record;
    page celeriac.picked_task[];
    size integer;
    last celeriac.picked_task;
    fitting uuid[];
begin
    if asked ? 'business_key' then
        page := array(
            select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
              from celeriac.instance i
              join celeriac.token k on k.instance_id = i.id
              join celeriac.task t on t.token_id = k.uid
              join celeriac.queue q on q.task_id = t.id
             where i.business_key = asked ->> 'business_key' and i.ended_at is null and q.task_type = topic and q.state = 'READY');
    elsif sorting is not null then
        page := array(
            select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
              from celeriac.queue q where q.task_type = topic and q.state = 'READY');
    end if;
    if page is not null then
        fitting := array(select f from celeriac.fitting_tasks(array(select p.task_id from unnest(page) p), asked) f);
        return query
        select p.* from unnest(page) p where p.task_id = any (fitting) and p.task_id <> all (seen)
         order by case when sorting is null or use_priority then p.urgency end, case when sorting is null then p.turn_at end,
                  case when sorting = 'desc' then p.task_id end desc, p.task_id
         limit want;
        return;
    end if;
    for stream in select s.version from celeriac.streams_of(topic) s loop
        last := ('00000000-0000-0000-0000-000000000000', 0, -2147483648, '-infinity', null)::celeriac.picked_task;
        fitting := '{}';
        size := want + cardinality(seen);
        loop
            page := array(
                select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
                  from celeriac.queue q
                 where q.task_type = topic and q.version = stream.version and q.state = 'READY'
                   and (-q.priority, q.turn_at, q.task_id) > (last.urgency, last.turn_at, last.task_id)
                 order by -q.priority, q.turn_at, q.task_id limit size);
            fitting := fitting || array(select f from celeriac.fitting_tasks(array(select p.task_id from unnest(page) p), asked) f
                                         where f <> all (seen));
            return query select p.* from unnest(page) p where p.task_id = any (fitting);
            exit when cardinality(page) < size or cardinality(fitting) >= want;
            last := page[cardinality(page)];
            size := least(size * 4, 1000);
        end loop;
    end loop;
end $$;
