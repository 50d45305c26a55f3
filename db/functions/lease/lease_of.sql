-- lease_of: how long a lease lasts: as asked, else by the task's own policy, else by its type, else 30 s.
create or replace function celeriac.lease_of(task_type text, policy jsonb, asked_ms bigint)
returns table (lease_ms bigint, lease interval)
language sql stable as $$
    select e.ms, e.ms * interval '1 millisecond'
      from (select coalesce(asked_ms, (select p.lease_ms from celeriac.effective_policy(task_type, policy) p)) as ms) e
$$;
