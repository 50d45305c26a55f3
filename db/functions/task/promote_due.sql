-- promote_due: SCHEDULED -> READY, a bounded batch of what is due; rows that someone holds are left for the next pass.
create or replace function celeriac.promote_due(max_tasks integer default 1000)
returns table (promoted integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks');
    with due as materialized (
        select q.task_id from celeriac.queue q where q.state = 'SCHEDULED' and q.run_at <= moment
         order by q.run_at, q.task_id limit max_tasks for update skip locked
    ), ready as (
        update celeriac.queue q set state = 'READY' from due d where q.task_id = d.task_id returning q.task_type
    )
    select count(*), coalesce(array_agg(distinct r.task_type), '{}') into promoted, task_types from ready r;
    if promoted > 0 then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
