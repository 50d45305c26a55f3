-- give_back: LOCKED -> READY, the attempt given back, with its line in the timeline; it keeps its old place.
create or replace function celeriac.give_back(held celeriac.queue, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    update celeriac.queue q
       set state = 'READY', attempts = q.attempts - 1, resumed = true, on_loss = null,
           lease_owner = null, lease_principal = null, leased_at = null, lease_expires_at = null, reap_at = null
     where q.task_id = held.task_id;
    perform celeriac.free_slot(held), celeriac.keep_still(held.task_id),
            celeriac.write_history(moment, held.task_id, 'released', held.fencing_token, held.attempts, held.leased_at,
                                   held.lease_owner, held.lease_principal, '{}');
end $$;
