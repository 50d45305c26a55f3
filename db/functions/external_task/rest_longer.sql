-- rest_longer: SCHEDULED -> SCHEDULED, a task at rest after a failure, until its last worker's lock would end.
create or replace function celeriac.rest_longer(held celeriac.queue, lock_ms bigint, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
    due_at timestamptz := moment + lock_ms * interval '1 millisecond';
begin
    update celeriac.queue q set run_at = due_at, turn_at = due_at, last_until = due_at where q.task_id = held.task_id;
end $$;
