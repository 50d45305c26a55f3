-- stops_at_once: whether a fact is a stop that undoes nothing. It goes before what else has happened, so that whoever was told of
-- a cancel finds the instance canceled; a stop that undoes must see what was done before it.
create or replace function celeriac.stops_at_once(fact celeriac.fact) returns boolean
language sql immutable as $$ select fact.kind = 'stopped' and not (fact.payload ->> 'compensate')::boolean $$;
