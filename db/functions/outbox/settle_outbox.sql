-- settle_outbox: published rows are deleted; returned ones (the broker was out: not their fault) are due again with their
-- attempt given back; rejected ones wait longer each time and are parked at their fifth attempt.
create or replace function celeriac.settle_outbox(
    published bigint[] default '{}', returned bigint[] default '{}', rejected jsonb default '[]')
returns setof celeriac.settled_outbox
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    if settle_outbox.rejected <> '[]' then
        perform celeriac.check_items(settle_outbox.rejected, array['id', 'error'], 10000, 'rejected');
    end if;
    -- In the order of the ids: two that settle the same rows wait for each other, never in a circle.
    perform from celeriac.outbox o
      where o.id = any (settle_outbox.published || settle_outbox.returned
                        || array(select (r ->> 'id')::bigint from jsonb_array_elements(settle_outbox.rejected) r))
      order by o.id for update;
    return query
    with sent as (
        delete from celeriac.outbox o where o.id = any (settle_outbox.published) returning 1
    ), back as (
        update celeriac.outbox o set attempts = greatest(o.attempts - 1, 0), due_at = moment + interval '1 second'
         where o.id = any (settle_outbox.returned) and o.parked_at is null returning 1
    ), bad as (
        update celeriac.outbox o
           set error = celeriac.cut_text(r.error, 8192), parked_at = case when o.attempts >= 5 then moment end,
               due_at = moment + least(power(2, o.attempts), 60) * interval '1 second'
          from jsonb_to_recordset(settle_outbox.rejected) r (id bigint, error text)
         where o.id = r.id and o.parked_at is null
        returning o.parked_at
    )
    select (select count(*) from sent)::integer, (select count(*) from back)::integer,
           (select count(*) from bad where parked_at is null)::integer, (select count(*) from bad where parked_at is not null)::integer;
end $$;
