-- effective_policy: what holds for a task: its own policy, else its type's, else our defaults.
-- Rounded, since jsonb keeps numbers that a double cannot hold (1e-400), and one such task must not break a whole batch.
create or replace function celeriac.effective_policy(task_type text, policy jsonb)
returns table (lease_ms bigint, retries integer, backoff_first_ms bigint, backoff_factor double precision,
               backoff_cap_ms bigint, backoff_jitter double precision, expirations integer)
language sql stable as $$
    select coalesce((policy ->> 'lease_ms')::bigint, t.lease_ms, 30000),
           coalesce(t.retries, 3),
           coalesce((policy ->> 'backoff_first_ms')::bigint, t.backoff_first_ms, 1000),
           coalesce(round((policy ->> 'backoff_factor')::numeric, 9)::double precision, t.backoff_factor, 2),
           coalesce((policy ->> 'backoff_cap_ms')::bigint, t.backoff_cap_ms, 300000),
           coalesce(round((policy ->> 'backoff_jitter')::numeric, 9)::double precision, t.backoff_jitter, 0.1),
           coalesce((policy ->> 'expirations')::integer, t.expirations, 5)
      from (values (effective_policy.task_type)) asked (name)
      left join celeriac.task_type t on t.name = asked.name
$$;
