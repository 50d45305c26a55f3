-- ready_types: which of these types have ready work and how much of it, counted up to max_tasks: the one look of an API
-- process for all its waiting polls. Of a rate-limited type, no more than it may hand out now. It does a bounded few chores
-- when they are late, and lets in what waits for a slot, so work goes on without beat.
create or replace function celeriac.ready_types(task_types text[], max_tasks integer default 1000)
returns table (task_type text, ready bigint)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    limited text[];
    admitted text[];
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.sweep_if_late(100);
    limited := celeriac.limited_types(ready_types.task_types);
    if limited <> '{}' then
        admitted := array(select distinct a.task_type from celeriac.open_slots(limited, 100) a);
        if admitted <> '{}' then
            perform celeriac.ring(admitted);
        end if;
    end if;
    return query
    select s.task_type, least(sum(cardinality(head.priorities)), (
               select l.tasks from celeriac.rate_left(array[s.task_type], celeriac.now()) l where s.task_type = any (limited)))::bigint
      from celeriac.streams(ready_types.task_types, null, ready_types.max_tasks, celeriac.now()) s
     cross join lateral celeriac.heads(s, ready_types.max_tasks) head (priorities)
     where head.priorities is not null
     group by s.task_type;
end $$;
