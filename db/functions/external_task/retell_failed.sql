-- retell_failed: FAILED -> FAILED: what its worker says of it now, in its row and its timeline; the incident stays as it was.
create or replace function celeriac.retell_failed(held celeriac.queue, failure celeriac.reported_failure) returns celeriac.write_answer
language plpgsql volatile as $$
declare
    was celeriac.task;
begin
    update celeriac.task t set error = failure.error where t.id = held.task_id returning t.* into was;
    perform celeriac.write_history(celeriac.now(), was.id, 'failed', was.fencing_token, was.attempts, was.started_at, was.worker_id,
                was.principal, jsonb_build_object('error', failure.error, 'retries', 0, 'run_at', null, 'state', 'FAILED')
                || case when failure.details is null then '{}' else jsonb_build_object('details', failure.details) end);
    return (0, was.id, 'FAILED', 0, null, null, null, null)::celeriac.write_answer;
end $$;
