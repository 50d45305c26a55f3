-- candidates: the first `want` ready tasks of a topic that fit what is asked of it and are not among the `seen`, without a lock. A few
-- are looked at a time, in the order that is asked for, until enough fit; those of a business key, which are found by it, all at once.
create or replace function celeriac.candidates(
    topic text, asked jsonb, seen uuid[], want integer, sorting text, use_priority boolean)
returns setof celeriac.picked_task
language plpgsql volatile as $$
declare
    stream record;
    page celeriac.picked_task[];
    size integer := want + cardinality(seen);
    last celeriac.picked_task;
    fitting uuid[] := '{}';
    beyond text;
begin
    if celeriac.fitting_definitions(asked) = '{}' then
        return;
    elsif asked ? 'business_key' then
        page := array(
            select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
              from celeriac.instance i
              join celeriac.token k on k.instance_id = i.id
              join celeriac.task t on t.token_id = k.uid
              join celeriac.queue q on q.task_id = t.id
             where i.business_key = asked ->> 'business_key' and i.ended_at is null and q.task_type = topic and q.state = 'READY');
        return query
        select p.* from unnest(page) p
          join celeriac.fitting_tasks(array(select o.task_id from unnest(page) o), asked) f on f = p.task_id
         where p.task_id <> all (seen)
         order by case when sorting is null or use_priority then p.urgency end, case when sorting is null then p.turn_at end,
                  case when sorting = 'desc' then p.task_id end desc, p.task_id
         limit want;
        return;
    elsif sorting is not null then
        -- Planned with its values: the ids sort by creation, so the key of the queue may serve the order.
        beyond := 'q.task_id ' || case sorting when 'desc' then '<' else '>' end || ' $2';
        if use_priority then
            beyond := format('(-q.priority > $3 or (-q.priority = $3 and %s))', beyond);
        end if;
        loop
            execute format('select array(
                select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
                  from celeriac.queue q where q.task_type = $1 and q.state = ''READY'' and ($2 is null or %s) order by %s q.task_id %s limit %s)',
                beyond, case when use_priority then '-q.priority,' end, case sorting when 'desc' then 'desc' end, size)
               into page using topic, last.task_id, last.urgency;
            fitting := fitting || array(select f from celeriac.fitting_tasks(array(select p.task_id from unnest(page) p), asked) f
                                         where f <> all (seen));
            return query select p.* from unnest(page) p join unnest(fitting) f on f = p.task_id;
            exit when cardinality(page) < size or cardinality(fitting) >= want;
            last := page[cardinality(page)];
            size := size * 4;
        end loop;
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
