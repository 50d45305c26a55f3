-- take_outbox: due rows of a channel, held for hold_ms: rows that are not settled by then are due again.
-- An attempt is counted before the row leaves, so a row that kills its dispatcher is seen; one that was tried before
-- comes alone, so it takes no other down with it; one that was tried five times is parked.
create or replace function celeriac.take_outbox(channel text, max_rows integer default 100, hold_ms bigint default 10000)
returns table (id bigint, key text, payload jsonb, attempts integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    head record;
    due celeriac.outbox;
begin
    perform celeriac.check_range(max_rows, 1, 10000, 'max_rows'), celeriac.check_range(hold_ms, 1, 3600000, 'hold_ms');
    loop
        select o.id, o.attempts into head
          from celeriac.outbox o
         where o.channel = take_outbox.channel and o.parked_at is null and o.due_at <= moment
         order by o.due_at, o.id limit 1 for update skip locked;
        exit when not found or head.attempts < 5;
        update celeriac.outbox o set parked_at = moment, error = coalesce(o.error, 'taken five times and never settled')
         where o.id = head.id;
    end loop;
    for due in
        select o.* from celeriac.outbox o
         where o.channel = take_outbox.channel and o.parked_at is null and o.due_at <= moment
           and case when head.attempts = 0 then o.attempts = 0 else o.id = head.id end
         order by o.due_at, o.id limit max_rows for update skip locked
    loop
        update celeriac.outbox o set attempts = due.attempts + 1, due_at = moment + hold_ms * interval '1 millisecond'
         where o.id = due.id;
        return query select due.id, due.key, due.payload, due.attempts + 1;
    end loop;
end $$;
