-- read_text: a text of an item, refused with its place when it is something else; null when missing.
create or replace function celeriac.read_text(item jsonb, name text, place text) returns text
language plpgsql immutable as $$
begin
    if item -> name is not null and jsonb_typeof(item -> name) not in ('string', 'null') then
        perform celeriac.refuse('invalid', format('%s.%s must be text', place, name), place || '.' || name);
    end if;
    return item ->> name;
end $$;
