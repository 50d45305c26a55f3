-- read_integer: a whole number of an item, refused with its place when it is something else or out of bounds; null when missing.
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
