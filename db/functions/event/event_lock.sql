-- event_lock: the number of the lock on which throwing and waiting for an event of this name take turns.
create or replace function celeriac.event_lock(kind text, name text) returns bigint
language sql immutable as $$ select hashtextextended('celeriac.event ' || kind || ' ' || name, 0) $$;
