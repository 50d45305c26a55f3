-- check_task_item: one item of enqueue_tasks, read and refused by field.
create or replace function celeriac.check_task_item(item jsonb, place text)
returns table (task_type text, version integer, priority integer, retries integer, delay_ms bigint, run_at timestamptz,
               business_key text, idempotency_key text, fairness_key text, concurrency_key text, token_id uuid, instance_id uuid, variables jsonb, policy jsonb)
language plpgsql stable as $$
begin
    task_type := celeriac.read_text(item, 'task_type', place);
    perform celeriac.check_name(task_type, place || '.task_type');
    if position('*' in task_type) > 0 then
        perform celeriac.refuse('invalid', place || '.task_type must not hold *: patterns use it', place || '.task_type');
    end if;
    version := coalesce(celeriac.read_integer(item, 'version', 1, 2147483647, place), 1);
    priority := coalesce(celeriac.read_integer(item, 'priority', 0, 2147483647, place), 0);
    retries := celeriac.read_integer(item, 'retries', 1, 2147483647, place);
    delay_ms := celeriac.read_integer(item, 'delay_ms', 0, 3155760000000, place);
    run_at := celeriac.read_moment(item, 'run_at', place);
    if delay_ms is not null and run_at is not null then
        perform celeriac.refuse('invalid', place || ' has both delay_ms and run_at', place || '.run_at');
    end if;
    business_key := celeriac.read_text(item, 'business_key', place);
    if business_key is not null then
        perform celeriac.check_name(business_key, place || '.business_key');
    end if;
    idempotency_key := celeriac.read_text(item, 'idempotency_key', place);
    if idempotency_key is not null then
        perform celeriac.check_name(idempotency_key, place || '.idempotency_key');
    end if;
    fairness_key := celeriac.read_text(item, 'fairness_key', place);
    if fairness_key is not null then
        perform celeriac.check_name(fairness_key, place || '.fairness_key');
    end if;
    concurrency_key := celeriac.read_text(item, 'concurrency_key', place);
    if concurrency_key is not null then
        perform celeriac.check_name(concurrency_key, place || '.concurrency_key');
    end if;
    token_id := celeriac.read_uuid(item, 'token_id', place);
    instance_id := celeriac.read_uuid(item, 'instance_id', place);
    variables := celeriac.read_variables(item, place);
    policy := celeriac.read_policy(item, place);
    return next;
end $$;
