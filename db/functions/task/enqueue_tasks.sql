-- enqueue_tasks: nothing -> READY | SCHEDULED | BLOCKED (others of its concurrency key come first)
-- Refuses: invalid and too_large (naming the field), forbidden types, idempotency_conflict (same key, other input).
-- All or nothing; the same key with the same input answers with the first task. Joins the caller's transaction.
create or replace function celeriac.enqueue_tasks(tasks jsonb, principal text default null, only_types text[] default null)
returns table (ordinal integer, task_id uuid, task_type text, state text, created boolean)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    asked celeriac.asked_task[];
    kept integer[];
begin
    perform celeriac.check_items(tasks, array['task_type', 'version', 'priority', 'retries', 'delay_ms', 'run_at', 'business_key',
        'idempotency_key', 'fairness_key', 'concurrency_key', 'token_id', 'instance_id', 'variables', 'policy'], 5000, 'tasks');
    asked := celeriac.read_tasks(tasks, moment, only_types);
    kept := celeriac.claim_keys(asked, moment);
    asked := celeriac.line_up(celeriac.take_turns(asked, kept, moment), kept);
    perform celeriac.insert_tasks(asked, kept, moment);
    -- Items that lost their key to an earlier task are answered with that task.
    return query
    select a.ordinal, coalesce(i.task_id, a.task_id), a.task_type,
           case when fresh.yes then a.state else coalesce(celeriac.state_of(i.task_id), 'PURGED') end,
           fresh.yes
      from unnest(asked) a
      cross join lateral (select a.idempotency_key is null or a.ordinal = any (kept) as yes) fresh
      left join celeriac.idempotency i on not fresh.yes and i.task_type = a.task_type and i.key = a.idempotency_key
     order by a.ordinal;
end $$;
