-- candidates: the first `want` ready tasks of a topic that fit what is asked of it and are not among the `seen`, without a lock. A few
-- are looked at a time, in the order that is asked for, until enough fit. Those of a business key are found by it; and those of
-- processes by their open instances, once a thousand tasks were looked at in vain: all that is ready may be of other processes.
create or replace function celeriac.candidates(
    topic text, asked jsonb, seen uuid[], want integer, sorting text, use_priority boolean)
returns setof celeriac.picked_task
language plpgsql volatile as $$
declare
    definitions uuid[] := celeriac.fitting_definitions(asked);
    instances uuid[];
    stream record;
    page celeriac.picked_task[];
    size integer;
    looked integer := 0;
    last celeriac.picked_task;
    fitting uuid[];
    given uuid[] := '{}';
    enough integer;
    beyond text;
begin
    if definitions = '{}' then
        return;
    elsif asked ? 'business_key' then
        return query select r.* from celeriac.ready_of(topic, array(
            select i.id from celeriac.instance i where i.business_key = asked ->> 'business_key' and i.ended_at is null),
            asked, seen, want, sorting, use_priority) r;
        return;
    elsif sorting is not null then
        -- Planned with its values: the ids sort by creation, so the key of the queue may serve the order.
        beyond := 'q.task_id ' || case sorting when 'desc' then '<' else '>' end || ' $2';
        if use_priority then
            beyond := format('(-q.priority > $3 or (-q.priority = $3 and %s))', beyond);
        end if;
    end if;
    for stream in select s.version from celeriac.streams_of(topic) s where sorting is null union all select null where sorting is not null loop
        last := case when sorting is null then ('00000000-0000-0000-0000-000000000000', 0, -2147483648, '-infinity', null)::celeriac.picked_task end;
        size := want + cardinality(seen);
        enough := cardinality(given) + want;
        loop
            if sorting is null then
                page := array(
                    select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
                      from celeriac.queue q
                     where q.task_type = topic and q.version = stream.version and q.state = 'READY'
                       and (-q.priority, q.turn_at, q.task_id) > (last.urgency, last.turn_at, last.task_id)
                     order by -q.priority, q.turn_at, q.task_id limit size);
            else
                execute format('select array(
                    select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
                      from celeriac.queue q where q.task_type = $1 and q.state = ''READY'' and ($2 is null or %s) order by %s q.task_id %s limit %s)',
                    beyond, case when use_priority then '-q.priority,' end, case sorting when 'desc' then 'desc' end, size)
                   into page using topic, last.task_id, last.urgency;
            end if;
            fitting := array(select f from celeriac.fitting_tasks(array(select p.task_id from unnest(page) p), asked) f where f <> all (seen));
            return query select p.* from unnest(page) p where p.task_id = any (fitting);
            given := given || fitting;
            exit when cardinality(page) < size or cardinality(given) >= enough;
            looked := looked + size;
            if looked > 1000 and definitions is not null and instances is null then
                instances := array(select i.id from celeriac.instance i
                                    where i.definition_id = any (definitions) and i.ended_at is null limit 20001);
                if cardinality(instances) <= 20000 then
                    return query select r.* from celeriac.ready_of(topic, instances, asked, seen || given, want, sorting, use_priority) r;
                    return;
                end if;
            end if;
            last := page[cardinality(page)];
            size := least(size * 4, 1000);
        end loop;
    end loop;
end $$;
