-- resend_outbox: parked rows are due again, oldest first, with their attempts forgotten.
create or replace function celeriac.resend_outbox(max_rows integer default 1000) returns table (resent integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
begin
    perform celeriac.check_range(max_rows, 1, 10000, 'max_rows');
    with parked as (
        select o.id from celeriac.outbox o where o.parked_at is not null order by o.id limit max_rows for update skip locked
    )
    update celeriac.outbox o set parked_at = null, attempts = 0, error = null, due_at = celeriac.now()
      from parked p where o.id = p.id;
    get diagnostics resent = row_count;
    return next;
end $$;
