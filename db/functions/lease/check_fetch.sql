-- check_fetch: refuses what fetch_tasks cannot serve, naming the field.
create or replace function celeriac.check_fetch(
    worker_id text, task_types text[], max_tasks integer, lock_duration_ms bigint, versions jsonb, only_types text[])
returns void language plpgsql immutable as $$
declare
    asked text;
begin
    perform celeriac.check_name(worker_id, 'worker_id');
    perform celeriac.check_range(max_tasks, 1, 1000, 'max_tasks');
    perform celeriac.check_range(coalesce(cardinality(task_types), 0), 1, 200, 'number of task_types');
    if lock_duration_ms is not null then
        perform celeriac.check_range(lock_duration_ms, 1, 2592000000, 'lock_duration_ms');
    end if;
    foreach asked in array task_types loop
        perform celeriac.check_name(asked, 'task_types');
        if not celeriac.may_touch(asked, only_types) then
            perform celeriac.refuse('forbidden', 'task_types names a type that is not among those of this principal', 'task_types');
        end if;
    end loop;
    if jsonb_typeof(versions) not in ('object', 'null') then
        perform celeriac.refuse('invalid', 'versions must be an object of arrays of whole numbers', 'versions');
    end if;
end $$;
