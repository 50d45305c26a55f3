-- read_variables: the variables of an item, an object of at most 1 MiB of JSON text; {} when there are none. Names have at most
-- 1024 bytes: those of an instance are in an index, and what does not fit there would be found when it is too late to refuse it.
create or replace function celeriac.read_variables(item jsonb, place text) returns jsonb
language plpgsql immutable as $$
declare
    variables jsonb := coalesce(celeriac.read_object(item, 'variables', place), '{}');
    size integer;
begin
    -- The text itself is measured: 1e131000 is stored in ten bytes and read back as 131 kB.
    size := octet_length(variables::text);
    if size > 1048576 then
        perform celeriac.refuse('too_large', place || '.variables must not be over 1 MiB', place || '.variables');
    elsif size > 1024
       and exists (select from jsonb_object_keys(variables) name where octet_length(name) > 1024) then
        perform celeriac.refuse('invalid', place || '.variables must have names of at most 1024 bytes', place || '.variables');
    end if;
    return variables;
end $$;
