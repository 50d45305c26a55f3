-- check_items: refuses a batch that is not an array of 1 to `at_most` objects with known keys only.
create or replace function celeriac.check_items(items jsonb, known text[], at_most integer, field text) returns void
language plpgsql immutable as $$
declare
    bad record;
begin
    if items is null or jsonb_typeof(items) <> 'array' then
        perform celeriac.refuse('invalid', field || ' must be an array', field);
    end if;
    perform celeriac.check_range(jsonb_array_length(items), 1, at_most, 'length of ' || field);
    select format('%s[%s]', check_items.field, i.ordinality - 1) as place, i.value as item
      into bad
      from jsonb_array_elements(items) with ordinality i
     where case jsonb_typeof(i.value) when 'object' then i.value - known <> '{}' else true end
     limit 1;
    if found and jsonb_typeof(bad.item) <> 'object' then
        perform celeriac.refuse('invalid', bad.place || ' must be an object', bad.place);
    elsif found then
        perform celeriac.refuse('invalid', bad.place || ' has an unknown field', bad.place || '.'
            || (select left(k, 100) from jsonb_object_keys(bad.item - known) k limit 1));
    end if;
end $$;
