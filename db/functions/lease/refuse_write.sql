-- refuse_write: raises what lease_refusal says.
create or replace function celeriac.refuse_write(
    task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[])
returns void language sql volatile as $$
    select celeriac.raise_refused(r.code, r.message, task_id, worker_id, fencing_token)
      from celeriac.lease_refusal(task_id, worker_id, fencing_token, principal, only_types) r
$$;
