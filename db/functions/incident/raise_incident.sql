-- raise_incident: LOCKED -> WAITING, because a person must look: the code no longer fits what was recorded (other_code), or
-- an undo fails (undo_failed: `ordinal` is the number of its compensation). Operations: settle_operation, UNKNOWN.
-- The same again (same worker and token) is answered with the same incident.
create or replace function celeriac.raise_incident(
    task_id uuid, worker_id text, fencing_token bigint, kind text, branch text default null, ordinal integer default null,
    name text default null, message text default null, detail jsonb default null)
returns table (incident_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    more jsonb := coalesce(celeriac.read_result(raise_incident.detail, 'detail'), '{}');
    why text := celeriac.cut_text(coalesce(raise_incident.message, ''), 8192);
    held celeriac.queue;
begin
    perform celeriac.check_name(raise_incident.worker_id, 'worker_id');
    if raise_incident.kind is null or raise_incident.kind not in ('other_code', 'undo_failed') then
        perform celeriac.refuse('invalid', 'kind must be other_code or undo_failed', 'kind');
    elsif jsonb_typeof(more) <> 'object' then
        perform celeriac.refuse('invalid', 'detail must be an object', 'detail');
    elsif raise_incident.name is not null then
        perform celeriac.check_name(raise_incident.name, 'name');
    end if;
    held := celeriac.try_lease(raise_incident.task_id, raise_incident.worker_id, raise_incident.fencing_token);
    if held.task_id is null then
        incident_id := (celeriac.past_incident(raise_incident.task_id, raise_incident.worker_id, raise_incident.fencing_token)).id;
        if incident_id is null then
            perform celeriac.refuse_write(raise_incident.task_id, raise_incident.worker_id, raise_incident.fencing_token,
                                          session_user, null);
        end if;
    else
        if raise_incident.kind = 'undo_failed' then
            perform celeriac.note_undo_error(held, raise_incident.ordinal, why);
        end if;
        incident_id := celeriac.open_incident(held, raise_incident.kind,
            case when raise_incident.kind = 'undo_failed' then 'undo' else left(raise_incident.branch, 1000) end,
            raise_incident.ordinal, raise_incident.name, why, more, null, moment);
    end if;
    return next;
end $$;
