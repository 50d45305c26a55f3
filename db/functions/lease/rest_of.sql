-- rest_of: how many ms a task rests after this failure, by its own policy or its type's.
create or replace function celeriac.rest_of(held celeriac.queue) returns bigint
language plpgsql volatile as $$
begin
    return (select celeriac.backoff_ms(t.id, held.attempts - held.expirations, p.backoff_first_ms, p.backoff_factor,
                                       p.backoff_cap_ms, p.backoff_jitter)
              from celeriac.task t cross join lateral celeriac.effective_policy(t.task_type, t.policy) p
             where t.id = held.task_id);
end $$;
