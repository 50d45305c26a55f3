-- complete_tasks: LOCKED -> COMPLETED
-- Each item is judged by itself: `code` says why one was refused, null that it holds. The same completion again (same
-- worker and token, same result) holds and changes nothing; another result is refused.
create or replace function celeriac.complete_tasks(
    items jsonb, worker_id text, principal text default null, only_types text[] default null)
returns table (ordinal integer, task_id uuid, state text, code text, message text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    me text := coalesce(complete_tasks.principal, session_user);
    done integer[];
begin
    perform celeriac.check_name(complete_tasks.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'variables'], 1000, 'items');
    with write as materialized (
        select w.*, celeriac.read_variables(w.item, format('items[%s]', w.ordinal)) as variables
          from celeriac.read_writes(items) w
         order by w.task_id
    ), held as materialized (
        -- In the order of the ids, as every batch locks: two of them wait for each other, never in a circle. The subquery
        -- locks, so it cannot be turned around into a walk over the queue.
        select w.ordinal, w.variables, q.*
          from write w
         cross join lateral (
               select q.* from celeriac.queue q
                where q.task_id = w.task_id
                  and q.state = 'LOCKED' and q.lease_expires_at > moment
                  and q.lease_owner = complete_tasks.worker_id and q.lease_principal = me
                  and q.fencing_token = coalesce(w.fencing_token, q.fencing_token)
                  and celeriac.may_touch(q.task_type, only_types)
                  for update) q
    ), counted as materialized (
        -- A batch may name a task twice: the first of the writes that hold is the one.
        select distinct on (h.task_id) h.* from held h order by h.task_id, h.ordinal
    ), gone as (
        delete from celeriac.queue q using counted h where q.task_id = h.task_id
    ), ended as (
        update celeriac.task t
           set state = 'COMPLETED', result = h.variables, started_at = h.leased_at, ended_at = moment,
               fencing_token = h.fencing_token, worker_id = h.lease_owner, principal = me,
               attempts = h.attempts, expirations = h.expirations
          from counted h where t.id = h.task_id
        returning h.ordinal
    )
    select coalesce(array_agg(e.ordinal), '{}') into done from ended e;
    return query
    select w.ordinal, w.task_id, case when w.ordinal = any (done) then 'COMPLETED' else a.state end, a.code, a.message
      from celeriac.read_writes(items) w
      left join lateral celeriac.answer_completion(
           w.task_id, complete_tasks.worker_id, w.fencing_token, w.item, me, only_types) a on w.ordinal <> all (done)
     order by w.ordinal;
end $$;
