-- resolve_incident: a person has decided, and the task goes on (or ends). other_code: retry (other code runs by now) or fail;
-- undo_failed: retry, or skip that undo. With `fail`, a task that is being undone ends with the rest of its undos skipped.
-- An incident of an instance (expression, model, loop, failed): retry; its token tries again what it could not do. Whoever may
-- touch the task's type or all of its process may decide.
-- Refuses: an incident that was resolved otherwise (already_ended); operation_unknown, which resolve_operation resolves.
create or replace function celeriac.resolve_incident(
    incident_id uuid, resolution text, note text default null, principal text default null, only_types text[] default null)
returns setof celeriac.resolved_incident
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    of_type text;
    incident celeriac.incident;
begin
    select i.* into incident from celeriac.incident i where i.id = resolve_incident.incident_id;
    select t.task_type into of_type from celeriac.task t where t.id = incident.task_id;
    if incident.id is null or not (coalesce(celeriac.may_touch(of_type, only_types), false) or exists (
           select from celeriac.instance i where i.id = incident.instance_id and celeriac.may_move(i.definition_id, only_types))) then
        perform celeriac.refuse('not_found', 'there is no such incident');
    elsif incident.instance_id is not null then
        perform celeriac.retry_token(incident, resolve_incident.resolution, celeriac.cut_text(resolve_incident.note, 8192),
                    coalesce(resolve_incident.principal, session_user), moment);
        return query select incident.id, incident.task_id, of_type, resolve_incident.resolution, incident.instance_id;
        return;
    elsif incident.kind = 'operation_unknown' then
        perform celeriac.refuse('invalid', 'an operation is resolved by resolve_operation, which says what came of it', 'resolution',
            jsonb_build_object('operation_id', incident.operation_id));
    elsif not coalesce(resolve_incident.resolution = any (case incident.kind when 'other_code' then array['retry', 'fail']
                                                                             else array['retry', 'skip'] end), false) then
        perform celeriac.refuse('invalid', 'resolution must be ' || case incident.kind when 'other_code' then 'retry or fail'
                                                                                       else 'retry or skip' end, 'resolution');
    end if;
    -- Whoever wakes or ends a task has locked its row first; then the incident is looked at again.
    perform celeriac.hold_open(incident.task_id, true);
    select i.* into incident from celeriac.incident i where i.id = incident.id for update;
    if incident.resolved_at is null then
        if celeriac.close_incident(incident, resolve_incident.resolution, celeriac.cut_text(resolve_incident.note, 8192),
                                   coalesce(resolve_incident.principal, session_user), moment) then
            perform celeriac.go_on(incident, resolve_incident.resolution, moment);
        end if;
    elsif incident.resolution <> resolve_incident.resolution then
        perform celeriac.refuse('already_ended', format('the incident was resolved: %s', incident.resolution));
    end if;
    return query select incident.id, incident.task_id, of_type, resolve_incident.resolution, null::uuid;
end $$;
