-- insert_tasks: nothing -> READY | SCHEDULED | BLOCKED, the rows of tasks that have been read and have their keys. Items that
-- lost their key to an earlier task write nothing.
create or replace function celeriac.insert_tasks(asked celeriac.asked_task[], kept integer[], moment timestamptz) returns void
language plpgsql volatile as $$
begin
    with wanted as materialized (
        select a.* from unnest(asked) a where a.idempotency_key is null or a.ordinal = any (kept)
    ), cold as (
        insert into celeriac.task (id, token_id, instance_id, created_at, version, priority, retries, task_type,
                                   business_key, idempotency_key, fairness_key, concurrency_key, variables, policy)
        select w.task_id, w.token_id, w.instance_id, moment, w.version, w.priority, w.retries, w.task_type,
               w.business_key, w.idempotency_key, w.fairness_key, w.concurrency_key, w.variables, w.policy
          from wanted w
    )
    insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, payload_bytes, state, task_type,
                                concurrency_key)
    select w.task_id, 0, w.run_at, w.turn_at, w.version, w.priority, w.retries, octet_length(w.variables::text), w.state,
           w.task_type, w.concurrency_key
      from wanted w;
    perform celeriac.open_streams(asked),
            celeriac.ring(array(select distinct a.task_type from unnest(asked) a where a.run_at <= moment
                                   and (a.idempotency_key is null or a.ordinal = any (kept))));
end $$;
