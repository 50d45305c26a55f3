-- last_failure: what the newest failed attempt of a task said; null when none has failed.
create or replace function celeriac.last_failure(task_id uuid) returns jsonb
language sql stable as $$
    select h.detail from celeriac.history h
     where h.task_id = last_failure.task_id and h.kind = 'failed' order by h.at desc limit 1
$$;
