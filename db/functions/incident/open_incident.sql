-- open_incident: LOCKED -> WAITING: something that a person must look at; the task stays where it is until then.
create or replace function celeriac.open_incident(
    held celeriac.queue, kind text, branch text, ordinal integer, name text, message text, detail jsonb, operation_id uuid,
    moment timestamptz)
returns uuid language plpgsql volatile as $$
declare
    incident_id uuid := celeriac.uuid_v7(moment);
begin
    insert into celeriac.incident (id, task_id, created_at, operation_id, ordinal, branch, kind, name, message, detail)
    values (incident_id, held.task_id, moment, open_incident.operation_id, open_incident.ordinal, open_incident.branch,
            open_incident.kind, open_incident.name, open_incident.message, open_incident.detail);
    perform celeriac.lay_to_rest(held, moment);
    -- One incident at a time holds a task up, so its wait has a place of its own: that of the call may hold a time-out. An older
    -- one may stand there, disarmed: that of an operation which nobody has decided about yet.
    delete from celeriac.wait w where w.task_id = held.task_id and w.branch = 'incident';
    insert into celeriac.wait (task_id, since, incident_id, ordinal, branch, kind, name, armed)
    values (held.task_id, moment, incident_id, 1, 'incident', 'incident', coalesce(open_incident.name, open_incident.kind), true);
    perform celeriac.write_history(moment, held.task_id, 'incident', held.fencing_token, held.attempts, held.leased_at,
                held.lease_owner, held.lease_principal,
                jsonb_build_object('incident_id', incident_id, 'kind', open_incident.kind, 'error', open_incident.message));
    return incident_id;
end $$;
