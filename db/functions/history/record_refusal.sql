-- record_refusal: a refused stale write in the timeline of its task; at most 100 a task, so that nobody can flood it.
create or replace function celeriac.record_refusal(
    task_id uuid, verb text, code text, worker_id text, fencing_token bigint default null, principal text default null,
    only_types text[] default null)
returns bigint
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
declare
    before bigint;
begin
    select count(*) into before
      from (select from celeriac.history h where h.task_id = record_refusal.task_id and h.kind = 'refused' limit 100) h;
    if before < 100 and exists (select from celeriac.task t where t.id = record_refusal.task_id
                                   and celeriac.may_touch(t.task_type, only_types)) then
        perform celeriac.write_history(celeriac.now(), record_refusal.task_id, 'refused', record_refusal.fencing_token, null, null,
            left(record_refusal.worker_id, 255), coalesce(record_refusal.principal, session_user),
            jsonb_build_object('verb', left(verb, 40), 'code', left(code, 40)));
        return before + 1;
    end if;
    return before;
end $$;
