-- check_range: refuses a number that is missing or out of bounds, naming the field.
create or replace function celeriac.check_range(value bigint, low bigint, high bigint, field text) returns void
language plpgsql immutable as $$
begin
    if value is null or value not between low and high then
        perform celeriac.refuse('invalid', format('%s must be between %s and %s', field, low, high), field);
    end if;
end $$;
