-- purge_instances: deletes instances that ended longer than older_than_ms ago, with all that they knew and their history, and
-- events that were kept and have expired. Their tasks go by purge_ended.
-- Walks the ids, which sort by the start, so it needs no index on the end: a bounded step from `after`; last_id null = done.
create or replace function celeriac.purge_instances(older_than_ms bigint, after uuid default null, max_instances integer default 100)
returns table (purged integer, last_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    horizon timestamptz;
    seen uuid[];
    gone uuid;
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms'),
            celeriac.check_range(max_instances, 1, 10000, 'max_instances');
    horizon := celeriac.now() - older_than_ms * interval '1 millisecond';
    purged := 0;
    select array_agg(s.id) into seen
      from (select i.id from celeriac.instance i
             where i.id > coalesce(purge_instances.after, '00000000-0000-0000-0000-000000000000')
               and i.id < celeriac.uuid_v7(horizon)
             order by i.id limit max_instances) s;
    for gone in
        select i.id from celeriac.instance i where i.id = any (seen) and i.ended_at < horizon order by i.id for update skip locked
    loop
        perform celeriac.forget_instance(gone);
        purged := purged + 1;
    end loop;
    perform celeriac.forget_events(max_instances),
            celeriac.forget_files(least(horizon, celeriac.now() - interval '1 day'), max_instances);
    last_id := case when cardinality(seen) = max_instances then seen[max_instances] end;
    return next;
end $$;
