-- read_result: a result or a plan as it is stored: JSON null is no value, and its text is at most 1 MiB.
create or replace function celeriac.read_result(content jsonb, field text) returns jsonb
language plpgsql immutable as $$
begin
    -- The text itself is measured: 1e131000 is stored in ten bytes and read back as 131 kB.
    if octet_length(content::text) > 1048576 then
        perform celeriac.refuse('too_large', field || ' must not be over 1 MiB', field);
    end if;
    return nullif(content, 'null');
end $$;
