-- place_name: what people read of a place: "call 3", "call 2 of branch 5.0".
create or replace function celeriac.place_name(branch text, ordinal integer) returns text
language sql immutable as $$
    select format('call %s', ordinal) || case when branch <> '' then ' of branch ' || branch else '' end
$$;
