-- complete_and_fetch: LOCKED -> COMPLETED, then READY -> LOCKED: a worker's outcomes and its next tasks in one round trip.
-- Rows with an ordinal answer items[ordinal] as complete_tasks does (code null: it holds); rows without are leased tasks, as
-- from fetch_tasks. items may be empty, and so may what is asked for (max_tasks 0, and then no task_types). A refused item
-- keeps neither the others nor the fetch from theirs; what is refused as invalid or forbidden changes nothing at all.
create or replace function celeriac.complete_and_fetch(
    items jsonb, worker_id text, task_types text[], max_tasks integer, versions jsonb default null,
    lock_duration_ms bigint default null, max_bytes bigint default null, principal text default null, only_types text[] default null)
returns setof celeriac.next_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    me text := coalesce(complete_and_fetch.principal, session_user);
begin
    if complete_and_fetch.max_tasks is distinct from 0 then
        perform celeriac.check_fetch(complete_and_fetch.worker_id, complete_and_fetch.task_types, complete_and_fetch.max_tasks,
                    complete_and_fetch.lock_duration_ms, complete_and_fetch.versions, complete_and_fetch.only_types);
    end if;
    if items is distinct from '[]' then
        return query
        select a.ordinal, a.code, a.message, a.task_id, null::uuid, null::uuid, null::text, null::integer, null::text, null::jsonb,
               null::bigint, null::timestamptz, null::bigint, null::integer, null::integer, null::integer, null::timestamptz,
               null::boolean, null::boolean, null::integer, null::integer
          from celeriac.complete_tasks(items, complete_and_fetch.worker_id, me, complete_and_fetch.only_types) a;
    end if;
    if complete_and_fetch.max_tasks = 0 then
        return;
    end if;
    return query
    select null::integer, null::text, null::text, c.task_id, c.token_id, c.instance_id, c.task_type, c.version, c.business_key,
           c.variables, c.fencing_token, c.lock_expires_at, c.lock_duration_ms, c.retries, c.attempt, c.priority, c.created_at,
           c.resumed, c.undoing, c.expirations, c.lives
      from unnest(celeriac.claim_tasks(
        complete_and_fetch.worker_id, complete_and_fetch.task_types, complete_and_fetch.max_tasks, complete_and_fetch.lock_duration_ms,
        complete_and_fetch.versions, coalesce(complete_and_fetch.max_bytes, 4194304), me)) c;
end $$;
