-- ring_stale: rings again for celery-delivered types whose best ready task has waited longer than older_than_ms:
-- its ring may have been lost with the broker. Types whose ring is still in the outbox are left alone.
create or replace function celeriac.ring_stale(older_than_ms bigint default 5000) returns table (rung integer)
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
declare
    horizon timestamptz := celeriac.now() - older_than_ms * interval '1 millisecond';
    stale text[];
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms');
    select coalesce(array_agg(t.name), '{}') into stale
      from celeriac.task_type t
     where t.delivery = 'celery'
       and exists (select from celeriac.stream s
                    cross join lateral (select q.run_at from celeriac.queue q
                        where q.task_type = s.task_type and q.version = s.version and q.state = 'READY'
                        order by -q.priority, q.turn_at, q.task_id limit 1) head
                    where s.task_type = t.name and head.run_at < horizon)
       and not exists (select from celeriac.outbox o where o.channel = 'ring' and o.parked_at is null
                          and o.payload = jsonb_build_object('task_type', t.name));
    perform celeriac.ring(stale);
    rung := cardinality(stale);
    return next;
end $$;
