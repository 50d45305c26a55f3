-- streams: the (type, version) pairs that a worker may take from now; a type without a list of versions is served in any.
create or replace function celeriac.streams(task_types text[], versions jsonb) returns table (task_type text, version integer)
language sql stable as $$
    select distinct asked.name, ready.version
      from unnest(task_types) asked (name)
     cross join lateral celeriac.ready_versions(asked.name) ready (version)
     where coalesce(versions -> asked.name @> to_jsonb(ready.version), true)
$$;
