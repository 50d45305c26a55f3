-- begin_undo: LOCKED | READY | … -> READY, to be undone: its handler is replayed over what is recorded, then its undos run.
-- Of one that is canceled while a worker is at it -> SCHEDULED, until that worker has let go of it (let_go) or its lease would have
-- ended: what undoes a step must not come before the step.
-- For a task in state OPEN, whose queue row is `held` (it may be gone already), and that is not being undone yet: the one
-- row of `saga` sees to that, too. Both budgets are full again; they are for the undos.
create or replace function celeriac.begin_undo(
    held celeriac.queue, cause text, error text, moment timestamptz, principal text default null)
returns void language plpgsql volatile as $$
declare
    undone celeriac.queue := held;
    holding boolean := cause = 'canceled' and held.state is not distinct from 'LOCKED' and held.lease_expires_at > moment;
    holder celeriac.queue := case when holding then held end;
begin
    insert into celeriac.saga (task_id, cause, error, began_at, holder, holder_principal, holder_token, holder_until)
    values (held.task_id, begin_undo.cause, begin_undo.error, moment,
            holder.lease_owner, holder.lease_principal, holder.fencing_token, holder.lease_expires_at);
    undone.state := case when holding then 'SCHEDULED' else 'READY' end;
    undone.undoing := true;
    undone.resumed := true;
    undone.run_at := case when holding then held.lease_expires_at else moment end;
    undone.turn_at := moment;
    undone.retries := celeriac.full_retries(held.task_id);
    undone.expirations := 0;
    undone.lease_owner := null;
    undone.lease_principal := null;
    undone.leased_at := null;
    undone.lease_expires_at := null;
    undone.reap_at := null;
    undone.last_owner := null;
    undone.last_principal := null;
    undone.last_until := null;
    undone.on_loss := null;
    undone.held_until := null;
    delete from celeriac.queue q where q.task_id = held.task_id;
    insert into celeriac.queue select undone.*;
    perform celeriac.free_slot(held), celeriac.keep_still(held.task_id),
            celeriac.write_history(moment, held.task_id, 'undoing', held.fencing_token, held.attempts, held.leased_at, held.lease_owner,
                coalesce(begin_undo.principal, held.lease_principal), jsonb_build_object('cause', begin_undo.cause, 'error', begin_undo.error)),
            celeriac.ring(array[held.task_type]);
end $$;
