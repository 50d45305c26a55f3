-- end_lost: LOCKED -> READY | FAILED, one lost lease of reap_leases, with its line in the timeline; true when it is not READY.
-- Back in the queue the task keeps its old place. Beyond its budget: fail_for_good, which may have something undone first.
-- What it costs says `on_loss`: one of the lost leases that its type allows, or one retry, or nothing.
create or replace function celeriac.end_lost(lost celeriac.queue, moment timestamptz) returns boolean
language plpgsql volatile as $$
declare
    budget integer := (select p.expirations from celeriac.task t
                        cross join lateral celeriac.effective_policy(t.task_type, t.policy) p where t.id = lost.task_id);
    state text := 'READY';
    for_good boolean := false;
begin
    if lost.on_loss is null then
        lost.expirations := lost.expirations + 1;
        for_good := lost.expirations > budget;
    elsif lost.on_loss = 'retry' then
        lost.retries := lost.retries - 1;
        lost.retries_told := true;
        for_good := lost.retries <= 0;
    end if;
    if for_good then
        state := celeriac.fail_for_good(lost, 'lease_lost', moment, lost.on_loss is null);
    else
        update celeriac.queue q
           set state = 'READY', expirations = lost.expirations, retries = lost.retries, retries_told = lost.retries_told,
               last_owner = lost.lease_owner, last_principal = lost.lease_principal, last_until = lost.lease_expires_at, on_loss = null,
               lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
         where q.task_id = lost.task_id;
        perform celeriac.free_slot(lost), celeriac.keep_still(lost.task_id);
    end if;
    perform celeriac.write_history(moment, lost.task_id, 'lease_lost', lost.fencing_token, lost.attempts, lost.leased_at,
                lost.lease_owner, lost.lease_principal,
                jsonb_build_object('expirations', lost.expirations, 'for_good', for_good)
                || case when lost.on_loss = 'retry' then jsonb_build_object('retries', greatest(lost.retries, 0)) else '{}' end);
    return state <> 'READY';
end $$;
