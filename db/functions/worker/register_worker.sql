-- register_worker: nothing | a worker -> the worker, alive now; an upsert, so registering again is a heartbeat.
create or replace function celeriac.register_worker(
    worker_id text, kind text default 'external', task_types text[] default '{}', versions jsonb default null,
    details jsonb default null, principal text default null, only_types text[] default null)
returns setof celeriac.worker_beat
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_name(register_worker.worker_id, 'worker_id');
    if register_worker.kind is null or register_worker.kind not in ('external', 'fleet') then
        perform celeriac.refuse('invalid', 'kind must be external or fleet', 'kind');
    elsif octet_length(details::text) > 16384 or octet_length(versions::text) > 16384 or cardinality(task_types) > 1000 then
        perform celeriac.refuse('too_large', 'a worker describes itself in 16 KiB and 1000 task types', 'details');
    elsif exists (select from unnest(task_types) t where not celeriac.may_touch(t, only_types)) then
        perform celeriac.refuse('forbidden', 'task_types names a type that is not among those of this principal', 'task_types');
    end if;
    perform celeriac.check_name(t, 'task_types') from unnest(task_types) t;
    return query
    insert into celeriac.worker as w (principal, worker_id, kind, task_types, versions, details, started_at, heartbeat_at)
    values (coalesce(register_worker.principal, session_user), register_worker.worker_id, register_worker.kind,
            coalesce(register_worker.task_types, '{}'), coalesce(register_worker.versions, '{}'),
            coalesce(register_worker.details, '{}'), moment, moment)
    on conflict (principal, worker_id) do update
       set kind = excluded.kind, task_types = excluded.task_types, versions = excluded.versions,
           details = excluded.details, heartbeat_at = moment
    returning w.worker_id, w.heartbeat_at;
end $$;
