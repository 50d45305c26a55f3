-- free_external_tasks: the first `most` tasks that no lock keeps from a worker, most urgent first; of one topic, or of all. They are found
-- where they are: of each type and version no more than `most` ready ones are read, and beside them what few others may be free.
-- `failed`: those with no retries left, too.
create or replace function celeriac.free_external_tasks(
    most integer, failed boolean, topic text default null, only_types text[] default null)
returns setof uuid
language plpgsql stable security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_range(most, 0, 100000, 'most');
    return query
    select free.task_id
      from (select head.*
              from (select s.task_type, s.version from celeriac.stream s
                     union select n.task_type, n.version from celeriac.new_stream n) s
             cross join lateral (
                   select q.task_id, q.task_type, q.priority, q.turn_at from celeriac.queue q
                    where q.task_type = s.task_type and q.version = s.version and q.state = 'READY'
                    order by -q.priority, q.turn_at, q.task_id limit most) head
             where s.task_type = coalesce(topic, s.task_type) and celeriac.may_touch(s.task_type, only_types)
            union all
            select q.task_id, q.task_type, q.priority, q.turn_at from celeriac.queue q
             where q.state = 'BLOCKED' and q.concurrency_key is not null
            union all
            -- Due, or of an instance that stands still.
            select q.task_id, q.task_type, q.priority, q.turn_at from celeriac.queue q
             where q.state = 'SCHEDULED' and q.run_at <= moment
            union all
            select q.task_id, q.task_type, q.priority, q.turn_at from celeriac.queue q
             where q.state = 'SCHEDULED' and q.run_at = 'infinity' and coalesce(q.last_until, moment) <= moment
            union all
            select q.task_id, q.task_type, q.priority, q.turn_at from celeriac.queue q
             where q.reap_at <= moment and q.state = 'LOCKED' and q.lease_expires_at <= moment
            union all
            select dead.* from (
                select t.id, t.task_type, t.priority, t.created_at
                  from celeriac.task t join celeriac.token k on k.uid = t.token_id
                 where failed and t.state = 'FAILED' and t.task_type = coalesce(topic, t.task_type)
                   and celeriac.may_touch(t.task_type, only_types)
                 order by -t.priority, t.created_at, t.id limit most) dead) free
     where free.task_type = coalesce(topic, free.task_type) and celeriac.may_touch(free.task_type, only_types)
     order by free.priority desc, free.turn_at, free.task_id
     limit most;
end $$;
