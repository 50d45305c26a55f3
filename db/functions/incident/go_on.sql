-- go_on: WAITING -> READY | FAILED | CANCELED: a task whose incident has just been resolved does what was decided.
create or replace function celeriac.go_on(incident celeriac.incident, resolution text, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    if incident.kind = 'undo_failed' then
        if resolution = 'skip' then
            perform celeriac.skip_undo(incident.task_id, incident.ordinal, moment);
        end if;
        -- What is tried again has a budget again.
        update celeriac.waiting w set retries = celeriac.full_retries(w.task_id), expirations = 0 where w.task_id = incident.task_id;
    end if;
    perform celeriac.wake_task(incident.task_id, moment);
    if resolution = 'fail' then
        perform celeriac.fail_awoken(incident, moment);
    end if;
end $$;
