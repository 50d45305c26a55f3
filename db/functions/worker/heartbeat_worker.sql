-- heartbeat_worker: a worker -> the worker, alive now. Refuses: one that is not registered.
create or replace function celeriac.heartbeat_worker(
    worker_id text, principal text default null, only_types text[] default null)
returns setof celeriac.worker_beat
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
begin
    return query
    update celeriac.worker w set heartbeat_at = celeriac.now()
     where w.principal = coalesce(heartbeat_worker.principal, session_user) and w.worker_id = heartbeat_worker.worker_id
    returning w.worker_id, w.heartbeat_at;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such worker');
    end if;
end $$;
