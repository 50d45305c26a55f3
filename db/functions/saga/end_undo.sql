-- end_undo: LOCKED -> FAILED | CANCELED, as its saga says, now that nothing is left to be undone; answers with that state.
create or replace function celeriac.end_undo(held celeriac.queue, moment timestamptz) returns text
language plpgsql volatile as $$
declare
    why celeriac.saga;
    final text;
begin
    update celeriac.saga s set ended_at = moment where s.task_id = held.task_id returning s.* into why;
    final := case why.cause when 'failed' then 'FAILED' else 'CANCELED' end;
    delete from celeriac.queue q where q.task_id = held.task_id;
    update celeriac.task t
       set state = final, error = why.error, started_at = held.leased_at, ended_at = moment,
           fencing_token = held.fencing_token, worker_id = held.lease_owner, principal = held.lease_principal,
           attempts = held.attempts, expirations = held.expirations
     where t.id = held.task_id;
    perform celeriac.write_history(moment, held.task_id, 'undone', held.fencing_token, held.attempts, held.leased_at,
                held.lease_owner, held.lease_principal, jsonb_build_object('state', final, 'error', why.error)),
            celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed);
    return final;
end $$;
