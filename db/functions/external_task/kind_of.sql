-- kind_of: the type of a variable by the name that Camunda has for it: as it was given, else what the JSON says.
create or replace function celeriac.kind_of(type text, value jsonb) returns text
language sql immutable as $$
    select coalesce(type, case jsonb_typeof(value)
        when 'string' then 'String'
        when 'boolean' then 'Boolean'
        when 'null' then 'Null'
        when 'number' then case when value #>> '{}' !~ '^-?\d+$' then 'Double'
                                when value::numeric between -2147483648 and 2147483647 then 'Integer'
                                when value::numeric between -9223372036854775808 and 9223372036854775807 then 'Long'
                                else 'Object' end
        else 'Object' end)
$$;
