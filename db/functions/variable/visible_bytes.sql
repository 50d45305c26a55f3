-- visible_bytes: how large the variables are, as JSON, that are seen from where a token stands, or (an instance's id) from its root.
create or replace function celeriac.visible_bytes(place uuid) returns bigint
language sql stable as $$
    select coalesce(octet_length(jsonb_object_agg(v.name, v.value)::text), 0) from celeriac.visible_variables(array[place]) v
$$;
