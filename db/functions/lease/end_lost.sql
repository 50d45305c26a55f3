-- end_lost: LOCKED -> READY | FAILED, one lost lease of reap_leases, with its line in the timeline; true when it is not READY.
-- Back in the queue the task keeps its old place. Beyond its budget: fail_for_good, which may have something undone first.
create or replace function celeriac.end_lost(lost celeriac.queue, moment timestamptz) returns boolean
language plpgsql volatile as $$
declare
    budget integer := (select p.expirations from celeriac.task t
                        cross join lateral celeriac.effective_policy(t.task_type, t.policy) p where t.id = lost.task_id);
    state text := 'READY';
begin
    lost.expirations := lost.expirations + 1;
    if lost.expirations > budget then
        state := celeriac.fail_for_good(lost, 'lease_lost', moment);
    else
        update celeriac.queue q
           set state = 'READY', expirations = lost.expirations,
               lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
         where q.task_id = lost.task_id;
        perform celeriac.free_slot(lost);
    end if;
    perform celeriac.write_history(moment, lost.task_id, 'lease_lost', lost.fencing_token, lost.attempts, lost.leased_at,
                lost.lease_owner, lost.lease_principal,
                jsonb_build_object('expirations', lost.expirations, 'for_good', lost.expirations > budget));
    return state <> 'READY';
end $$;
