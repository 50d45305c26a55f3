-- write_history: one line of the timeline, for what is out of the ordinary.
create or replace function celeriac.write_history(
    at timestamptz, task_id uuid, kind text, fencing_token bigint, attempt integer, started_at timestamptz,
    worker_id text, principal text, detail jsonb)
returns void language sql volatile as $$
    insert into celeriac.history (at, task_id, kind, fencing_token, attempt, started_at, worker_id, principal, detail)
    values (at, task_id, kind, fencing_token, attempt, started_at, worker_id, principal, detail)
$$;
