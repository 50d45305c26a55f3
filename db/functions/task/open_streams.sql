-- open_streams: makes known the types and versions that these tasks bring; fetches look for no others.
create or replace function celeriac.open_streams(asked celeriac.asked_task[]) returns void
language sql volatile as $$
    insert into celeriac.stream (task_type, version)
    select distinct a.task_type, a.version from unnest(asked) a order by a.task_type, a.version
        on conflict do nothing
$$;
