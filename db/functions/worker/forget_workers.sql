-- forget_workers: a bounded batch of workers that have been silent for a week.
create or replace function celeriac.forget_workers(max_workers integer) returns void
language sql volatile as $$
    with silent as materialized (
        select w.principal, w.worker_id from celeriac.worker w
         where w.heartbeat_at < celeriac.now() - interval '7 days' limit max_workers for update skip locked
    )
    delete from celeriac.worker w using silent s where w.principal = s.principal and w.worker_id = s.worker_id
$$;
