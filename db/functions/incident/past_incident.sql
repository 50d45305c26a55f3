-- past_incident: the incident that an earlier write with this very token raised; all null when there is none.
create or replace function celeriac.past_incident(task_id uuid, worker_id text, fencing_token bigint) returns celeriac.incident
language plpgsql stable as $$
declare
    before celeriac.history := celeriac.past_write(task_id, 'incident', worker_id, fencing_token, session_user, null);
    incident celeriac.incident;
begin
    if before.task_id is not null then
        select i.* into incident from celeriac.incident i where i.id = (before.detail ->> 'incident_id')::uuid;
    end if;
    return incident;
end $$;
