-- read_wait: one item of suspend_task, read and refused by field.
create or replace function celeriac.read_wait(item jsonb, task_id uuid, place text, moment timestamptz) returns celeriac.asked_wait
language plpgsql volatile as $$
declare
    read celeriac.asked_wait;
    rest bigint := coalesce(celeriac.read_integer(item, 'timeout_ms', 0, 3155760000000, place),
                            celeriac.read_integer(item, 'delay_ms', 0, 3155760000000, place));
    fits text[];
    other text;
begin
    read.branch := coalesce(celeriac.read_text(item, 'branch', place), '');
    read.ordinal := celeriac.read_integer(item, 'ordinal', 1, 1000000000, place);
    read.name := celeriac.read_text(item, 'name', place);
    read.kind := celeriac.read_text(item, 'kind', place);
    read.topic := celeriac.read_text(item, 'topic', place);
    read.key := celeriac.read_text(item, 'key', place);
    read.child_id := celeriac.read_uuid(item, 'child_id', place);
    read.until := coalesce(celeriac.read_moment(item, 'until', place), moment + rest * interval '1 millisecond');
    perform celeriac.check_place(read.branch, read.ordinal, place || '.'), celeriac.check_name(read.name, place || '.name');
    fits := case read.kind when 'signal' then array['topic', 'key', 'timeout_ms'] when 'timer' then array['delay_ms', 'until']
                           when 'task' then array['child_id', 'timeout_ms'] end;
    if fits is null then
        perform celeriac.refuse('invalid', place || '.kind must be signal, timer or task', place || '.kind');
    end if;
    select k into other from jsonb_object_keys(jsonb_strip_nulls(item) - array['branch', 'ordinal', 'name', 'kind'] - fits) k limit 1;
    if found then
        perform celeriac.refuse('invalid', format('%s.%s does not go with kind %s', place, other, read.kind), place || '.' || other);
    elsif read.kind = 'signal' then
        perform celeriac.check_name(read.topic, place || '.topic');
        if read.key is not null then
            perform celeriac.check_name(read.key, place || '.key');
        end if;
        read.key := coalesce(read.key, '');
    elsif read.kind = 'timer' and num_nonnulls(item ->> 'delay_ms', item ->> 'until') <> 1 then
        perform celeriac.refuse('invalid', place || ' must have one of delay_ms and until', place || '.delay_ms');
    elsif read.kind = 'task' and (read.child_id is null or read.child_id = task_id) then
        perform celeriac.refuse('invalid', place || '.child_id must name another task', place || '.child_id');
    end if;
    return read;
end $$;
