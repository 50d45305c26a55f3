-- settle_failed: writes what fail_tasks decided: back to the queue, or ended, each with its line in the timeline.
create or replace function celeriac.settle_failed(
    failed celeriac.failed_task[], moment timestamptz, worker_id text, principal text)
returns void language plpgsql volatile as $$
begin
    if failed is null then
        return;
    end if;
    update celeriac.queue q
       set state = case when f.run_at > moment then 'SCHEDULED' else 'READY' end, run_at = f.run_at, turn_at = f.run_at, retries = f.retries,
           lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
      from unnest(failed) f where q.task_id = f.task_id and f.retries > 0;

    delete from celeriac.queue q using unnest(failed) f where q.task_id = f.task_id and f.retries = 0;
    update celeriac.task t
       set state = 'FAILED', error = f.error, started_at = f.started_at, ended_at = moment, fencing_token = f.fencing_token,
           worker_id = settle_failed.worker_id, principal = settle_failed.principal, attempts = f.attempts,
           expirations = f.expirations
      from unnest(failed) f where t.id = f.task_id and f.retries = 0;

    perform celeriac.write_history(moment, f.task_id, 'failed', f.fencing_token, f.attempts, f.started_at,
                settle_failed.worker_id, settle_failed.principal,
                jsonb_build_object('error', f.error, 'retries', f.retries, 'run_at', f.run_at))
       from unnest(failed) f;
    perform celeriac.ring(array(select distinct f.task_type from unnest(failed) f where f.retries > 0 and f.run_at <= moment));
end $$;
