-- definition_lock: the number of the lock on which starting instances of a definition and deleting it take turns.
create or replace function celeriac.definition_lock(definition_id uuid) returns bigint
language sql immutable as $$ select hashtextextended('celeriac.use of ' || definition_id, 0) $$;
