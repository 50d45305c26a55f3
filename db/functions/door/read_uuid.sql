-- read_uuid: a UUID of an item, refused with its place when it is something else; null when missing.
create or replace function celeriac.read_uuid(item jsonb, name text, place text) returns uuid
language plpgsql immutable as $$
begin
    if item -> name is null or item -> name = 'null' then
        return null;
    end if;
    if item ->> name !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then
        perform celeriac.refuse('invalid', format('%s.%s must be a UUID', place, name), place || '.' || name);
    end if;
    return (item ->> name)::uuid;
end $$;
