-- check_name: refuses a text that is not a name, naming the field.
create or replace function celeriac.check_name(name text, field text) returns void
language plpgsql immutable as $$
begin
    if not celeriac.is_name(name) then
        perform celeriac.refuse('invalid', field || ' must be 1 to 255 printable characters without surrounding space', field);
    end if;
end $$;
