-- ready_types: which of these types have ready work and how much of it, counted up to max_tasks: the one look of an API
-- process for all its waiting polls. It expires and promotes a bounded few, so that work goes on when beat is dead.
create or replace function celeriac.ready_types(task_types text[], max_tasks integer default 1000)
returns table (task_type text, ready bigint)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
begin
    perform celeriac.expire_leases(100), celeriac.promote_due(100);
    return query
    select asked.name, sum(counted.ready)::bigint
      from unnest(task_types) asked (name)
     cross join lateral celeriac.ready_versions(asked.name) v (version)
     cross join lateral (
           select count(*) as ready
             from (select from celeriac.queue q
                    where q.task_type = asked.name and q.version = v.version and q.state = 'READY' limit max_tasks) q) counted
     group by asked.name;
end $$;
