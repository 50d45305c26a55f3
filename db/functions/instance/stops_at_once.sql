-- stops_at_once: whether a fact is a stop that undoes nothing, so that no work is wanted any more.
create or replace function celeriac.stops_at_once(fact celeriac.fact) returns boolean
language sql immutable as $$ select fact.kind = 'stopped' and not (fact.payload ->> 'compensate')::boolean $$;
