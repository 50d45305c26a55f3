-- read_variables: the variables of an item, an object of at most 1 MiB of JSON text; {} when there are none.
create or replace function celeriac.read_variables(item jsonb, place text) returns jsonb
language plpgsql immutable as $$
declare
    variables jsonb := coalesce(celeriac.read_object(item, 'variables', place), '{}');
begin
    -- The text itself is measured: 1e131000 is stored in ten bytes and read back as 131 kB.
    if octet_length(variables::text) > 1048576 then
        perform celeriac.refuse('too_large', place || '.variables must not be over 1 MiB', place || '.variables');
    end if;
    return variables;
end $$;
