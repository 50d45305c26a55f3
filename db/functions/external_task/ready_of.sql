-- ready_of: the first `want` ready tasks of a topic in these instances, of those that fit what is asked and are not among the `seen`.
create or replace function celeriac.ready_of(
    topic text, instances uuid[], asked jsonb, seen uuid[], want integer, sorting text, use_priority boolean)
returns setof celeriac.picked_task
language plpgsql stable as $$
declare
    page celeriac.picked_task[] := array(
        select (q.task_id, q.payload_bytes, -q.priority, q.turn_at, q.concurrency_key)::celeriac.picked_task
          from unnest(instances) one
          join celeriac.token k on k.instance_id = one
          join celeriac.task t on t.token_id = k.uid
          join celeriac.queue q on q.task_id = t.id
         where q.task_type = topic and q.state = 'READY');
begin
    return query
    select p.* from unnest(page) p
      join celeriac.fitting_tasks(array(select o.task_id from unnest(page) o), asked) f on f = p.task_id
     where p.task_id <> all (seen)
     order by case when sorting is null or use_priority then p.urgency end, case when sorting is null then p.turn_at end,
              case when sorting = 'desc' then p.task_id end desc, p.task_id
     limit want;
end $$;
