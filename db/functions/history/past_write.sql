-- past_write: the line of the timeline that an earlier write with this very token left; all null when there is none.
create or replace function celeriac.past_write(
    task_id uuid, kind text, worker_id text, fencing_token bigint, principal text, only_types text[])
returns celeriac.history
language sql stable as $$
    select h from celeriac.history h
      join celeriac.task t on t.id = h.task_id and celeriac.may_touch(t.task_type, only_types)
     where h.task_id = past_write.task_id and h.fencing_token = past_write.fencing_token and h.kind = past_write.kind
       and h.worker_id = past_write.worker_id and h.principal = past_write.principal
     order by h.at desc limit 1
$$;
