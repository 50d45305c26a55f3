-- expire_leases: LOCKED -> READY | FAILED (more lost leases than the budget allows: such a payload kills its workers)
-- Bounded, and judged in the statement that locks: a lease that was extended since is only looked at again when it ends;
-- a row that someone else holds is left for the next pass.
create or replace function celeriac.expire_leases(max_tasks integer default 500)
returns table (expired integer, failed integer, rearmed integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    lost celeriac.lost_lease[];
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks');
    with due as materialized (
        select q.* from celeriac.queue q where q.state = 'LOCKED' and q.reap_at <= moment
         order by q.reap_at, q.task_id limit max_tasks for update skip locked
    ), extended as (
        update celeriac.queue q set reap_at = q.lease_expires_at
          from due d where q.task_id = d.task_id and d.lease_expires_at > moment
        returning q.task_id
    )
    select (select count(*) from extended), array_agg(row(d.task_id, d.task_type, d.fencing_token, d.attempts, d.expirations + 1,
               d.leased_at, d.lease_owner, d.lease_principal, d.expirations >= p.expirations)::celeriac.lost_lease)
      into rearmed, lost
      from due d
      join celeriac.task t on t.id = d.task_id
     cross join lateral celeriac.effective_policy(t.task_type, t.policy) p
     where d.lease_expires_at <= moment;

    perform celeriac.settle_lost(lost, moment);
    select count(*), count(*) filter (where l.for_good), coalesce(array_agg(distinct l.task_type) filter (where not l.for_good), '{}')
      into expired, failed, task_types from unnest(lost) l;
    return next;
end $$;
