-- settle_lost: writes what expire_leases decided: back to the queue in its old place, or ended, each with its line in the timeline.
create or replace function celeriac.settle_lost(lost celeriac.lost_lease[], moment timestamptz)
returns void language plpgsql volatile as $$
begin
    if lost is null then
        return;
    end if;
    update celeriac.queue q
       set state = 'READY', expirations = l.expirations,
           lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
      from unnest(lost) l where q.task_id = l.task_id and not l.for_good;

    delete from celeriac.queue q using unnest(lost) l where q.task_id = l.task_id and l.for_good;
    update celeriac.task t
       set state = 'FAILED', error = 'lease_lost', started_at = l.started_at, ended_at = moment, fencing_token = l.fencing_token,
           worker_id = l.worker_id, principal = l.principal, attempts = l.attempts, expirations = l.expirations
      from unnest(lost) l where t.id = l.task_id and l.for_good;

    perform celeriac.write_history(moment, l.task_id, 'lease_lost', l.fencing_token, l.attempts, l.started_at, l.worker_id,
                l.principal, jsonb_build_object('expirations', l.expirations, 'for_good', l.for_good))
       from unnest(lost) l;
    perform celeriac.ring(array(select distinct l.task_type from unnest(lost) l where not l.for_good));
end $$;
