-- fail_tasks: LOCKED -> READY | SCHEDULED (failures left) | FAILED (none left)
-- The engine owns retries: one less, or as many as the item says; the rest is retry_after_ms or the type's backoff.
-- Each item is judged by itself, as in complete_tasks. The same failure again (same worker and token) holds.
create or replace function celeriac.fail_tasks(
    items jsonb, worker_id text, principal text default null, only_types text[] default null)
returns table (ordinal integer, task_id uuid, state text, retries integer, run_at timestamptz, code text, message text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    me text := coalesce(fail_tasks.principal, session_user);
    failed celeriac.failed_task[];
begin
    perform celeriac.check_name(fail_tasks.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'error', 'retry_after_ms', 'retries'], 1000, 'items');
    with write as materialized (
        select w.*, celeriac.cut_text(coalesce(celeriac.read_text(w.item, 'error', p.place), ''), 8192) as error,
               celeriac.read_integer(w.item, 'retry_after_ms', 0, 3155760000000, p.place) as rest_ms,
               celeriac.read_integer(w.item, 'retries', 0, 2147483647, p.place)::integer as retries
          from celeriac.read_writes(items) w
         cross join lateral (select format('items[%s]', w.ordinal) as place) p
         order by w.task_id
    ), held as materialized (
        select w.ordinal, w.error, w.rest_ms, coalesce(w.retries, greatest(q.retries - 1, 0)) as left_over, q.*
          from write w
         cross join lateral (
               select q.* from celeriac.queue q
                where q.task_id = w.task_id
                  and q.state = 'LOCKED' and q.lease_expires_at > moment
                  and q.lease_owner = fail_tasks.worker_id and q.lease_principal = me
                  and q.fencing_token = coalesce(w.fencing_token, q.fencing_token)
                  and celeriac.may_touch(q.task_type, only_types)
                  for update) q
    ), counted as materialized (
        -- A batch may name a task twice: the first of the writes that hold is the one.
        select distinct on (h.task_id) h.* from held h order by h.task_id, h.ordinal
    )
    select array_agg(row(h.ordinal, h.task_id, h.task_type, h.left_over, moment + coalesce(h.rest_ms, celeriac.backoff_ms(
               h.task_id, h.attempts - h.expirations, p.backoff_first_ms, p.backoff_factor, p.backoff_cap_ms, p.backoff_jitter))
               * interval '1 millisecond', h.error, h.fencing_token, h.attempts, h.expirations, h.leased_at)::celeriac.failed_task)
      into failed
      from counted h
      join celeriac.task t on t.id = h.task_id
     cross join lateral celeriac.effective_policy(t.task_type, t.policy) p;

    perform celeriac.settle_failed(failed, moment, fail_tasks.worker_id, me);
    return query
    select w.ordinal, w.task_id,
           case when f.task_id is null then a.state when f.retries = 0 then 'FAILED'
                when f.run_at > moment then 'SCHEDULED' else 'READY' end,
           coalesce(f.retries, a.retries), case when f.task_id is null then a.run_at when f.retries > 0 then f.run_at end,
           a.code, a.message
      from celeriac.read_writes(items) w
      left join unnest(failed) f on f.ordinal = w.ordinal
      left join lateral celeriac.answer_failure(
           w.task_id, fail_tasks.worker_id, w.fencing_token, me, only_types) a on f.task_id is null
     order by w.ordinal;
end $$;
