-- fail_awoken: READY -> READY | FAILED | CANCELED: a task that was woken only to fail for good ends (or begins to be undone) as
-- the attempt that raised the incident would have ended it. One that is being undone ends: the rest of its undos is skipped.
create or replace function celeriac.fail_awoken(incident celeriac.incident, moment timestamptz) returns void
language plpgsql volatile as $$
declare
    awoken celeriac.queue;
    before celeriac.history;
    number integer;
begin
    select q.* into awoken from celeriac.queue q where q.task_id = incident.task_id for update;
    select h.* into before from celeriac.history h
     where h.task_id = incident.task_id and h.kind = 'incident' and h.detail ->> 'incident_id' = incident.id::text;
    awoken.attempts := awoken.attempts + 1;
    awoken.leased_at := before.started_at;
    awoken.lease_owner := before.worker_id;
    awoken.lease_principal := before.principal;
    awoken.fencing_token := greatest(awoken.fencing_token, before.fencing_token);
    if awoken.undoing then
        for number in select c.number from celeriac.compensation c
                       where c.task_id = awoken.task_id and c.state = 'REGISTERED' order by c.number desc loop
            perform celeriac.skip_undo(awoken.task_id, number, moment);
        end loop;
    end if;
    perform celeriac.write_history(moment, awoken.task_id, 'failed', awoken.fencing_token, awoken.attempts, awoken.leased_at,
                awoken.lease_owner, awoken.lease_principal,
                jsonb_build_object('error', incident.message, 'retries', 0, 'run_at', null,
                                   'state', celeriac.fail_for_good(awoken, incident.message, moment)));
end $$;
