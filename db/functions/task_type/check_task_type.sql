-- check_task_type: refuses settings of a task type that are out of bounds, naming the field; null is always allowed.
create or replace function celeriac.check_task_type(
    name text, lease_ms bigint, retries integer, backoff_first_ms bigint, backoff_factor double precision, backoff_cap_ms bigint,
    backoff_jitter double precision, expirations integer, delivery text, queue text)
returns void language plpgsql immutable as $$
begin
    perform celeriac.check_name(name, 'name');
    if position('*' in name) > 0 then
        perform celeriac.refuse('invalid', 'name must not hold *: patterns use it', 'name');
    end if;
    perform celeriac.check_range(coalesce(lease_ms, 1), 1, 2592000000, 'lease_ms'),
            celeriac.check_range(coalesce(retries, 1), 1, 2147483647, 'retries'),
            celeriac.check_range(coalesce(backoff_first_ms, 0), 0, 3155760000000, 'backoff_first_ms'),
            celeriac.check_range(coalesce(backoff_cap_ms, 0), 0, 3155760000000, 'backoff_cap_ms'),
            celeriac.check_range(coalesce(expirations, 0), 0, 2147483647, 'expirations');
    if backoff_factor not between 1 and 100 then
        perform celeriac.refuse('invalid', 'backoff_factor must be between 1 and 100', 'backoff_factor');
    elsif backoff_jitter not between 0 and 1 then
        perform celeriac.refuse('invalid', 'backoff_jitter must be between 0 and 1', 'backoff_jitter');
    elsif delivery not in ('pull', 'celery') then
        perform celeriac.refuse('invalid', 'delivery must be pull or celery', 'delivery');
    elsif queue is not null and delivery = 'pull' then
        perform celeriac.refuse('invalid', 'queue is for delivery celery only', 'queue');
    elsif queue is not null then
        perform celeriac.check_name(queue, 'queue');
        -- The longest that a broker takes (AMQP: a short string).
        perform celeriac.check_range(octet_length(queue), 1, 255, 'bytes of queue');
    end if;
end $$;
