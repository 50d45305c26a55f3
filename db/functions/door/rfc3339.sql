-- rfc3339: a time as text, in UTC, whatever the zone of the session.
create or replace function celeriac.rfc3339(moment timestamptz) returns text
language sql immutable as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
