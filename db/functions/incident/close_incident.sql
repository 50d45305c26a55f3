-- close_incident: a person has decided; true when its task waited for just that. Whoever calls it has locked the row that holds
-- the open task, so nobody else wakes or ends it meanwhile.
create or replace function celeriac.close_incident(
    incident celeriac.incident, resolution text, note text, principal text, moment timestamptz)
returns boolean language plpgsql volatile as $$
begin
    update celeriac.incident i
       set resolved_at = moment, resolution = close_incident.resolution, resolved_by = close_incident.principal,
           note = close_incident.note
     where i.id = incident.id;
    perform celeriac.write_history(moment, incident.task_id, 'resolved', null, null, null, null, close_incident.principal,
                jsonb_build_object('incident_id', incident.id, 'kind', incident.kind, 'resolution', close_incident.resolution,
                                   'note', close_incident.note));
    delete from celeriac.wait w where w.task_id = incident.task_id and w.incident_id = incident.id and w.armed;
    return found;
end $$;
