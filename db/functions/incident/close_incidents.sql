-- close_incidents: what still held a task up when it ended otherwise (it was canceled) needs nobody any more; but an
-- operation that may have taken effect does, whatever became of its task.
create or replace function celeriac.close_incidents(task_id uuid, resolution text, principal text, moment timestamptz) returns void
language plpgsql volatile as $$
declare
    incident celeriac.incident;
begin
    for incident in
        select i.* from celeriac.incident i
         where i.task_id = close_incidents.task_id and i.resolved_at is null and i.kind <> 'operation_unknown'
    loop
        perform celeriac.close_incident(incident, resolution, null, principal, moment);
    end loop;
end $$;
