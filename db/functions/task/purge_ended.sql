-- purge_ended: deletes tasks that ended longer than older_than_ms ago, with all that they did and their timeline, and signals
-- that have expired; idempotency keys stay for ever.
-- Walks the ids, which sort by creation, so it needs no index on the end: a bounded step from `after`; last_id null = done.
create or replace function celeriac.purge_ended(older_than_ms bigint, after uuid default null, max_tasks integer default 1000)
returns table (purged integer, last_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    horizon timestamptz;
    seen uuid[];
    gone uuid[];
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms'),
            celeriac.check_range(max_tasks, 1, 10000, 'max_tasks');
    horizon := celeriac.now() - older_than_ms * interval '1 millisecond';
    select array_agg(s.id) into seen
      from (select t.id from celeriac.task t
             where t.id > coalesce(purge_ended.after, '00000000-0000-0000-0000-000000000000')
               and t.id < celeriac.uuid_v7(horizon)
             order by t.id limit max_tasks) s;
    with ended as (
        select t.id from celeriac.task t where t.id = any (seen) and t.ended_at < horizon order by t.id for update skip locked
    ), gone as (
        delete from celeriac.task t using ended e where t.id = e.id and t.ended_at < horizon returning t.id
    ), forgotten as (
        delete from celeriac.history h using gone g where h.task_id = g.id
    )
    select array_agg(g.id order by g.id) into gone from gone g;
    purged := coalesce(cardinality(gone), 0);
    perform celeriac.forget_work(gone), celeriac.forget_signals(max_tasks),
            celeriac.forget_turns(max_tasks), celeriac.forget_workers(max_tasks);
    last_id := case when cardinality(seen) = max_tasks then seen[max_tasks] end;
    return next;
end $$;
