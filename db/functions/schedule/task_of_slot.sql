-- task_of_slot: the item for enqueue_tasks by which a schedule fires a slot: the same key, and so one task, whoever fires it.
create or replace function celeriac.task_of_slot(schedule celeriac.schedule, slot_at timestamptz) returns jsonb
language plpgsql stable as $$
declare
    slot text := to_char(slot_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || rtrim(rtrim(to_char(slot_at at time zone 'UTC', '.US'), '0'), '.') || 'Z';
    item jsonb := schedule.task || jsonb_build_object('idempotency_key', format('schedule:%s:%s', schedule.name, slot));
begin
    if schedule.slot_variable is not null then
        item := item || jsonb_build_object('variables',
            coalesce(nullif(item -> 'variables', 'null'), '{}') || jsonb_build_object(schedule.slot_variable, slot));
    end if;
    return item;
end $$;
