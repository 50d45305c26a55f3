-- end_canceled: ends a task whose queue row (or, when there is none, whose row of `waiting`) has just been taken away.
create or replace function celeriac.end_canceled(task_id uuid, hot celeriac.queue, why text, principal text) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    owner record;
begin
    update celeriac.task t
       set state = 'CANCELED', error = why, ended_at = moment, principal = end_canceled.principal,
           started_at = hot.leased_at, worker_id = hot.lease_owner, attempts = coalesce(hot.attempts, t.attempts),
           expirations = coalesce(hot.expirations, t.expirations), fencing_token = nextval('celeriac.fencing_token')
     where t.id = end_canceled.task_id
    returning t.instance_id, t.token_id into owner;
    perform celeriac.write_history(moment, end_canceled.task_id, 'canceled', hot.fencing_token, hot.attempts, hot.leased_at,
                hot.lease_owner, end_canceled.principal, jsonb_build_object('reason', why, 'was', coalesce(hot.state, 'WAITING')));
    perform celeriac.free_slot(hot), celeriac.conclude_task(end_canceled.task_id, coalesce(hot.resumed, true));
    if owner.instance_id is not null then
        perform celeriac.tell_owner(owner.instance_id, owner.token_id, 'failed', jsonb_build_object('message', 'the task was canceled'));
    end if;
end $$;
