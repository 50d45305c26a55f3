-- due_instances: instances that something has happened to, and nobody has worked it in for older_than_ms; the oldest first.
create or replace function celeriac.due_instances(older_than_ms bigint default 300, max_instances integer default 100)
returns table (instance_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms'), celeriac.check_range(max_instances, 1, 10000, 'max_instances');
    return query
    select due.id from (
        select f.instance_id as id, min(f.at) as since from (
            -- Those that stand still must not take the place of others, however much has happened to them.
            select f.instance_id, f.at from celeriac.fact f
              join celeriac.instance i on i.id = f.instance_id and not i.suspended
             where f.at <= moment - older_than_ms * interval '1 millisecond'
             order by f.at limit 10 * max_instances) f
         group by f.instance_id order by min(f.at) limit max_instances) due
     order by due.since;
end $$;
