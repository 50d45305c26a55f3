-- check_limits: refuses limits of a task type that are out of bounds, naming the field; null is always allowed, 0 takes one away.
create or replace function celeriac.check_limits(concurrency integer, rate_tasks integer, rate_ms bigint) returns void
language plpgsql immutable as $$
begin
    perform celeriac.check_range(coalesce(concurrency, 0), 0, 10000, 'concurrency'),
            celeriac.check_range(coalesce(rate_tasks, 0), 0, 1000000, 'rate_tasks'),
            celeriac.check_range(coalesce(rate_ms, 0), 0, 2592000000, 'rate_ms');
    if rate_tasks > 0 and coalesce(rate_ms, 0) = 0 then
        perform celeriac.refuse('invalid', 'rate_tasks needs rate_ms', 'rate_ms');
    elsif rate_ms > 0 and coalesce(rate_tasks, 0) = 0 then
        perform celeriac.refuse('invalid', 'rate_ms needs rate_tasks', 'rate_tasks');
    end if;
end $$;
