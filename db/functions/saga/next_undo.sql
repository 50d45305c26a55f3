-- next_undo: the compensation that is undone next, the newest that is left; all null when there is none.
create or replace function celeriac.next_undo(task_id uuid) returns celeriac.compensation
language sql stable as $$
    select c from celeriac.compensation c
     where c.task_id = next_undo.task_id and c.state = 'REGISTERED' order by c.number desc limit 1
$$;
