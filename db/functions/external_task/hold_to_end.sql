-- hold_to_end: an external task, locked, and LOCKED for a worker that holds it or held it last (take_back, unless told not to), so that
-- it can end it. In the order in which Camunda looks: not_found, lease_lost (another worker's, or nobody's), suspended.
create or replace function celeriac.hold_to_end(
    task_id uuid, worker_id text, principal text, only_types text[], take boolean default true)
returns celeriac.queue
language plpgsql volatile as $$
declare
    held celeriac.queue;
begin
    perform celeriac.check_name(worker_id, 'worker_id');
    held := celeriac.hold_external(task_id, only_types);
    if not celeriac.is_held_by(held, worker_id, principal) then
        perform celeriac.refuse_external(held, worker_id, 'lease_lost', 'the task is held by another worker, or by nobody');
    elsif celeriac.stands_still(task_id) then
        perform celeriac.refuse('suspended', 'the process instance is suspended', null, jsonb_build_object('task_id', task_id));
    end if;
    return case when take then celeriac.take_back(held) else held end;
end $$;
