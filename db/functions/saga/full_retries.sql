-- full_retries: the budget of failures that a task was given, at least one.
create or replace function celeriac.full_retries(task_id uuid) returns integer
language sql stable as $$ select greatest(t.retries, 1) from celeriac.task t where t.id = full_retries.task_id $$;
