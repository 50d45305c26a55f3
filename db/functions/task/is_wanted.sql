-- is_wanted: whether a task belongs to no process, or a token of its process stands on it still: else its instance has ended, was
-- undone, or went another way.
create or replace function celeriac.is_wanted(task celeriac.task) returns boolean
language sql stable as $$
    select task.instance_id is null or exists (select from celeriac.token k where k.uid = task.token_id)
           or not exists (select from celeriac.instance i where i.id = task.instance_id)
$$;
