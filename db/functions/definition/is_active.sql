-- is_active: whether instances of a definition may be started: it is not suspended, and the time from which on it is to be used has come.
create or replace function celeriac.is_active(deployed celeriac.definition, moment timestamptz) returns boolean
language sql stable as $$ select not deployed.suspended and coalesce(deployed.active_from <= moment, true) $$;
