-- state_of: the state a person sees; null when the task has been purged or never was.
create or replace function celeriac.state_of(task_id uuid) returns text
language sql stable as $$
    select coalesce(q.state, t.state) from celeriac.task t left join celeriac.queue q on q.task_id = t.id
     where t.id = state_of.task_id
$$;
