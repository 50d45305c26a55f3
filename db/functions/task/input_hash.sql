-- input_hash: what makes two inputs of one idempotency key the same: version and variables, whatever the order of the keys.
create or replace function celeriac.input_hash(version integer, variables jsonb) returns bytea
language sql immutable as $$ select sha256(convert_to(version || ' ' || variables::text, 'UTF8')) $$;
