-- ring_stale: rings again for celery-delivered types whose best ready task has waited longer than older_than_ms: its ring
-- may have been lost with the broker. Does nothing while rings wait in the outbox (the dispatcher is behind, or the broker
-- is out), and leaves alone a type whose ring has just been parked (that one needs a person), or that may not hand out more now.
create or replace function celeriac.ring_stale(older_than_ms bigint default 5000) returns table (rung integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    stale text[];
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms');
    rung := 0;
    if not exists (select from celeriac.outbox o where o.channel = 'ring' and o.parked_at is null
                      and o.due_at < moment - interval '1 second') then
        stale := array(
            select t.name from celeriac.task_type t
             where t.delivery = 'celery'
               and celeriac.waited_since(t.name) < moment - older_than_ms * interval '1 millisecond'
               and not exists (select from celeriac.rate_left(array[t.name], moment) l where l.tasks = 0)
               and not exists (select from celeriac.outbox o
                                where o.parked_at > moment - interval '1 hour' and o.payload = jsonb_build_object('task_type', t.name)));
        perform celeriac.ring(stale);
        rung := cardinality(stale);
    end if;
    return next;
end $$;
