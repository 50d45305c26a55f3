-- check_schedule: refuses a schedule that could not fire, naming the field. What cron, every and time_zone mean is not
-- known here: whoever puts a schedule has read them and says when the first slot is.
create or replace function celeriac.check_schedule(
    name text, task jsonb, next_at timestamptz, cron text, every text, time_zone text, anchor_at timestamptz, catch_up text,
    slot_variable text)
returns void language plpgsql stable as $$
declare
    known constant text[] := array['task_type', 'version', 'priority', 'retries', 'business_key', 'fairness_key',
        'concurrency_key', 'variables', 'policy'];
begin
    perform celeriac.check_name(name, 'name');
    -- The idempotency key of each task is the name with the slot: both must fit into a key.
    perform celeriac.check_range(length(name), 1, 200, 'length of name');
    if jsonb_typeof(task) is distinct from 'object' then
        perform celeriac.refuse('invalid', 'task must be an object', 'task');
    elsif task - known <> '{}' then
        perform celeriac.refuse('invalid', 'task has an unknown field', 'task.'
            || (select left(k, 100) from jsonb_object_keys(task - known) k limit 1));
    end if;
    perform from celeriac.check_task_item(task, 'task');
    if (cron is null) = (every is null) then
        perform celeriac.refuse('invalid', 'a schedule has either cron or every', 'cron');
    elsif cron is not null then
        perform celeriac.check_name(cron, 'cron');
    else
        perform celeriac.check_name(every, 'every');
    end if;
    if (every is null) <> (anchor_at is null) then
        perform celeriac.refuse('invalid', 'anchor_at goes with every', 'anchor_at');
    end if;
    perform celeriac.check_name(time_zone, 'time_zone');
    if catch_up not in ('one', 'all', 'none') then
        perform celeriac.refuse('invalid', 'catch_up must be one, all or none', 'catch_up');
    elsif slot_variable is not null then
        perform celeriac.check_name(slot_variable, 'slot_variable');
    end if;
    -- Later than Python can say, or never.
    if next_at is null or not isfinite(next_at) or next_at > celeriac.now() + interval '200 years' then
        perform celeriac.refuse('invalid', 'next_at must be a time within 200 years', 'next_at');
    end if;
end $$;
