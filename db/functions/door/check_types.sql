-- check_types: refuses types of variables, {name: {"type", "info", "transient"}}, that nobody could read later, or that the JSON of
-- the variable belies; none at all (null) are none.
create or replace function celeriac.check_types(types jsonb, variables jsonb, field text) returns void
language plpgsql immutable as $$
begin
    if types is null or types = '{}' then
        return;
    elsif jsonb_typeof(types) <> 'object' then
        perform celeriac.refuse('invalid', field || ' must be an object', field);
    elsif exists (
        select from jsonb_each(types) t
         where jsonb_typeof(t.value) <> 'object' or jsonb_typeof(t.value -> 'type') not in ('string', 'null')
            or jsonb_typeof(t.value -> 'info') not in ('object', 'null') or jsonb_typeof(t.value -> 'transient') not in ('boolean', 'null'))
    then
        perform celeriac.refuse('invalid', field || ' must have objects of type (text), info (object) and transient (boolean)', field);
    elsif exists (
        select from jsonb_each(types) t
         where jsonb_typeof(variables -> t.key) not in ('null', case
                   when t.value ->> 'type' in ('Short', 'Integer', 'Long', 'Double') then 'number'
                   when t.value ->> 'type' in ('String', 'Date', 'Bytes', 'Xml') then 'string'
                   when t.value ->> 'type' = 'Boolean' then 'boolean'
                   when t.value ->> 'type' = 'File' then 'object'
                   else jsonb_typeof(variables -> t.key) end)
            or t.value ->> 'type' = 'File' and variables -> t.key ->> 'file' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
    then
        perform celeriac.refuse('invalid', field || ' has a type that its variable is not of', field);
    end if;
end $$;
