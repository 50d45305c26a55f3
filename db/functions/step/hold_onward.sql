-- hold_onward: hold_lease of a task that goes on; one that is being undone does nothing new any more, and is refused.
create or replace function celeriac.hold_onward(task_id uuid, worker_id text, fencing_token bigint) returns celeriac.queue
language plpgsql volatile as $$
declare
    held celeriac.queue := celeriac.hold_lease(task_id, worker_id, fencing_token);
begin
    if held.undoing then
        perform celeriac.refuse('invalid', 'the task is being undone: it does nothing new', 'task_id');
    end if;
    return held;
end $$;
