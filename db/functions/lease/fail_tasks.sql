-- fail_tasks: LOCKED -> READY | SCHEDULED (failures left) | FAILED (none left)
-- The engine owns retries: one less, or as many as the item says; the rest is retry_after_ms or the type's backoff.
-- Each item is judged by itself, as in complete_tasks. The same failure again (same worker and token) holds.
create or replace function celeriac.fail_tasks(
    items jsonb, worker_id text, principal text default null, only_types text[] default null)
returns table (ordinal integer, task_id uuid, state text, retries integer, run_at timestamptz, code text, message text, instance_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    me text := coalesce(fail_tasks.principal, session_user);
    answers celeriac.write_answer[] := '{}';
    failure celeriac.reported_failure;
    write record;
begin
    perform celeriac.check_name(fail_tasks.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'error', 'retry_after_ms', 'retries'], 1000, 'items');
    -- In the order of the ids, as every batch locks: two of them wait for each other, never in a circle.
    for write in select w.* from celeriac.read_writes(items) w order by w.task_id, w.ordinal loop
        failure := celeriac.read_failure(write.item, format('items[%s]', write.ordinal));
        answers := answers || celeriac.end_failed(write.ordinal, write.task_id, fail_tasks.worker_id, write.fencing_token,
                                                  failure, me, only_types);
    end loop;
    return query
    select a.ordinal, a.task_id, a.state, a.retries, a.run_at, a.code, a.message, a.instance_id
      from unnest(answers) a order by a.ordinal;
end $$;
