-- now: the only clock. Leases, due times and expiry are judged by it, never by a caller's own clock.
create or replace function celeriac.now() returns timestamptz
language sql volatile as $$ select clock_timestamp() $$;
