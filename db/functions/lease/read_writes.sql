-- read_writes: the items of complete_tasks and fail_tasks, read at the door.
create or replace function celeriac.read_writes(items jsonb)
returns table (ordinal integer, task_id uuid, fencing_token bigint, item jsonb)
language plpgsql immutable as $$
#variable_conflict use_column
begin
    return query
    select (i.ordinality - 1)::integer, celeriac.read_uuid(i.value, 'task_id', p.place),
           celeriac.read_integer(i.value, 'fencing_token', 1, 999999999999999999, p.place), i.value
      from jsonb_array_elements(items) with ordinality i
     cross join lateral (select format('items[%s]', i.ordinality - 1) as place) p;
    if exists (select from jsonb_array_elements(items) i where i -> 'task_id' is null or i -> 'task_id' = 'null') then
        perform celeriac.refuse('invalid', 'every item must name its task_id', 'items.task_id');
    end if;
end $$;
