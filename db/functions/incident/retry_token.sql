-- retry_token: a person has decided about an incident of an instance: its token tries again, by the advance that follows.
create or replace function celeriac.retry_token(
    incident celeriac.incident, resolution text, note text, principal text, moment timestamptz)
returns void language plpgsql volatile as $$
declare
    resolved text;
begin
    if resolution is distinct from 'retry' then
        perform celeriac.refuse('invalid', 'resolution must be retry', 'resolution');
    end if;
    update celeriac.incident i
       set resolved_at = moment, resolution = retry_token.resolution, resolved_by = retry_token.principal, note = retry_token.note
     where i.id = incident.id and i.resolved_at is null;
    if found then
        perform celeriac.tell_instance(incident.instance_id, 'continued', incident.token_uid);
        return;
    end if;
    -- As it is now: somebody may have decided while we waited.
    select i.resolution into resolved from celeriac.incident i where i.id = incident.id;
    if resolved is distinct from 'retry' then
        perform celeriac.refuse('already_ended', format('the incident was resolved: %s', resolved));
    end if;
end $$;
