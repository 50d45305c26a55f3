-- ready_versions: the versions of a type that have ready work, found by hopping along the index.
create or replace function celeriac.ready_versions(task_type text) returns setof integer
language sql stable as $$
    with recursive hop (version) as (
        (select q.version from celeriac.queue q
          where q.task_type = ready_versions.task_type and q.state = 'READY' order by q.version limit 1)
        union all
        select (select q.version from celeriac.queue q
                 where q.task_type = ready_versions.task_type and q.state = 'READY' and q.version > hop.version
                 order by q.version limit 1)
          from hop where hop.version is not null
    )
    select hop.version from hop where hop.version is not null
$$;
