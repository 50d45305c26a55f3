-- read_integer, read_text, read_uuid, read_object: one field of an item, refused with its place when it has the wrong
-- type or is out of bounds. A missing field and a JSON null read as SQL null.
create or replace function celeriac.read_integer(item jsonb, name text, low bigint, high bigint, place text) returns bigint
language plpgsql immutable as $$
begin
    if item -> name is null or item -> name = 'null' then
        return null;
    end if;
    if jsonb_typeof(item -> name) <> 'number' or item ->> name !~ '^-?[0-9]{1,18}$'
       or (item ->> name)::bigint not between low and high then
        perform celeriac.refuse('invalid', format('%s.%s must be a whole number between %s and %s', place, name, low, high),
                                place || '.' || name);
    end if;
    return (item ->> name)::bigint;
end $$;

create or replace function celeriac.read_text(item jsonb, name text, place text) returns text
language plpgsql immutable as $$
begin
    if item -> name is not null and jsonb_typeof(item -> name) not in ('string', 'null') then
        perform celeriac.refuse('invalid', format('%s.%s must be text', place, name), place || '.' || name);
    end if;
    return item ->> name;
end $$;

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
