-- choose_ready: the best `want` ready tasks that fit what a worker asks of their topics, locked, as claim_tasks serves them. Looks at
-- candidates without a lock and takes them with SKIP LOCKED; those that others were quicker at are made up for by the next ones.
-- Topics of equal priority take turns, unless another order is asked for.
create or replace function celeriac.choose_ready(task_types text[], topics jsonb, want integer, sorting text, use_priority boolean)
returns setof celeriac.served_stream
language plpgsql volatile as $$
declare
    seen uuid[] := '{}';
    taken uuid[] := '{}';
    candidate record;
    fresh boolean := true;
begin
    while fresh and cardinality(taken) < want loop
        fresh := false;
        for candidate in
            select c.task_id
              from jsonb_each(topics) topic
             cross join lateral celeriac.candidates(topic.key, topic.value, seen, want - cardinality(taken), sorting, use_priority) c
             where topic.key = any (task_types)
             order by case when sorting is null or use_priority then c.urgency end,
                      case when sorting is null then row_number() over (partition by topic.key, c.urgency order by c.turn_at, c.task_id) end,
                      case when sorting is null then c.turn_at end,
                      case when sorting = 'desc' then c.task_id end desc, c.task_id
        loop
            fresh := true;
            seen := seen || candidate.task_id;
            perform from celeriac.queue q where q.task_id = candidate.task_id and q.state = 'READY' for update skip locked;
            if found then
                taken := taken || candidate.task_id;
                exit when cardinality(taken) = want;
            end if;
        end loop;
    end loop;
    return query
    select q.task_type, q.version, null::integer, null::timestamptz, count(*), array_agg(q.task_id)
      from celeriac.queue q where q.task_id = any (taken) group by q.task_type, q.version;
end $$;
