-- read_object: an object of an item, refused with its place when it is something else; null when missing.
create or replace function celeriac.read_object(item jsonb, name text, place text) returns jsonb
language plpgsql immutable as $$
begin
    if item -> name is null or item -> name = 'null' then
        return null;
    end if;
    if jsonb_typeof(item -> name) <> 'object' then
        perform celeriac.refuse('invalid', format('%s.%s must be an object', place, name), place || '.' || name);
    end if;
    return item -> name;
end $$;
