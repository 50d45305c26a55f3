-- claim_keys: the ordinals of the items whose idempotency key is theirs from now on.
-- Refuses: idempotency_conflict when a key was used with another input; says which task has it.
create or replace function celeriac.claim_keys(asked celeriac.asked_task[], moment timestamptz) returns integer[]
language plpgsql volatile as $$
declare
    kept integer[];
    clash record;
begin
    if not exists (select from unnest(asked) a where a.idempotency_key is not null) then
        return '{}';
    end if;
    -- In the order of the keys, so that two batches with the same keys wait for, and never deadlock, each other.
    with mine as (
        insert into celeriac.idempotency (task_type, key, task_id, input_hash, created_at)
        select a.task_type, a.idempotency_key, a.task_id, celeriac.input_hash(a.version, a.variables), moment
          from unnest(asked) a where a.idempotency_key is not null
         order by a.task_type, a.idempotency_key, a.ordinal
            on conflict do nothing
        returning task_id
    )
    select array_agg(a.ordinal) into kept from unnest(asked) a join mine on mine.task_id = a.task_id;
    select a.ordinal, i.task_id into clash
      from unnest(asked) a
      join celeriac.idempotency i on i.task_type = a.task_type and i.key = a.idempotency_key
     where i.input_hash <> celeriac.input_hash(a.version, a.variables)
     order by a.ordinal limit 1;
    if found then
        perform celeriac.refuse('idempotency_conflict',
            format('tasks[%s].idempotency_key was used before with another input, by task %s', clash.ordinal, clash.task_id),
            format('tasks[%s].idempotency_key', clash.ordinal), jsonb_build_object('task_id', clash.task_id));
    end if;
    return coalesce(kept, '{}');
end $$;
