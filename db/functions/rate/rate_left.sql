-- rate_left: how many tasks of each rate-limited type among these may be handed out now, and when the next may be when none.
-- A type hands out at most rate_tasks in any period of rate_ms. What was handed out counts until its stretch is wholly over,
-- so never too little is counted; what a clock that was set back says of a time to come does not count.
create or replace function celeriac.rate_left(task_types text[], moment timestamptz) returns setof celeriac.rate_left
language plpgsql volatile as $$
begin
    return query
    select t.name, greatest(t.rate_tasks - coalesce(spent.tasks, 0), 0)::integer,
           spent.oldest_at + t.rate_ms * interval '1 millisecond'
      from celeriac.task_type t
      left join celeriac.rate r on r.task_type = t.name
     cross join lateral (
           select sum(h.tasks) as tasks, min(h.last_at) as oldest_at
             from unnest(r.first_at, r.last_at, r.tasks) h (first_at, last_at, tasks)
            where h.last_at > moment - t.rate_ms * interval '1 millisecond' and h.first_at <= moment) spent
     where t.name = any (rate_left.task_types) and t.rate_tasks is not null;
end $$;
