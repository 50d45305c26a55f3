-- ready_types: which of these types have ready work and how much of it, counted up to max_tasks: the one look of an API
-- process for all its waiting polls. It sweeps a bounded few when the chores are late, so work goes on without beat.
create or replace function celeriac.ready_types(task_types text[], max_tasks integer default 1000)
returns table (task_type text, ready bigint)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.sweep_if_late(100);
    return query
    select s.task_type, sum(cardinality(head.priorities))::bigint
      from celeriac.streams(ready_types.task_types, null, ready_types.max_tasks, celeriac.now()) s
     cross join lateral celeriac.heads(s, ready_types.max_tasks) head (priorities)
     where head.priorities is not null
     group by s.task_type;
end $$;
