-- files_in: the files that typed values name.
create or replace function celeriac.files_in(variables jsonb, types jsonb) returns uuid[]
language sql immutable as $$
    select array(select (variables -> t.key ->> 'file')::uuid from jsonb_each(types) t
                  where t.value ->> 'type' = 'File' and variables -> t.key ->> 'file' is not null)
$$;
