-- limited_types: those of these types that have a limit, of tasks a key or of tasks a period: only they cost a claim more.
create or replace function celeriac.limited_types(task_types text[]) returns text[]
language plpgsql volatile as $$
begin
    return array(select t.name from celeriac.task_type t
                  where t.name = any (task_types) and (t.concurrency is not null or t.rate_tasks is not null));
end $$;
