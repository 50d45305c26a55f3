-- refuse_external: refuses a worker of the Camunda face a task that it does not hold; `held_by` in the detail says who does. Counted.
create or replace function celeriac.refuse_external(held celeriac.queue, worker_id text, code text, message text) returns void
language plpgsql volatile as $$
begin
    perform nextval('celeriac.refused_write');
    raise log 'celeriac refused a stale write of % on task % at the Camunda face: %', worker_id, held.task_id, code;
    perform celeriac.refuse(code, message, null, jsonb_build_object(
        'task_id', held.task_id, 'worker_id', worker_id, 'held_by', coalesce(held.lease_owner, held.last_owner)));
end $$;
