-- write_history: one line of the timeline, for what is out of the ordinary.
create or replace function celeriac.write_history(
    at timestamptz, task_id uuid, kind text, fencing_token bigint, attempt integer, started_at timestamptz,
    worker_id text, principal text, detail jsonb)
returns void language plpgsql volatile as $$
#variable_conflict use_column
begin
    insert into celeriac.history (at, task_id, kind, fencing_token, attempt, started_at, worker_id, principal, detail)
    values (write_history.at, write_history.task_id, write_history.kind, write_history.fencing_token, write_history.attempt,
            write_history.started_at, write_history.worker_id, write_history.principal, write_history.detail);
end $$;
