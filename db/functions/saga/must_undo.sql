-- must_undo: whether a task that fails for good, or is canceled with compensation, has anything to undo.
create or replace function celeriac.must_undo(task_id uuid) returns boolean
language sql stable as $$
    select exists (select from celeriac.compensation c where c.task_id = must_undo.task_id and c.state = 'REGISTERED')
$$;
