-- is_held_by: whether a worker holds a task, or was the last who did and nobody has taken it since.
create or replace function celeriac.is_held_by(held celeriac.queue, worker_id text, principal text) returns boolean
language sql immutable as $$
    select coalesce(worker_id = coalesce(held.lease_owner, held.last_owner)
                    and principal = coalesce(held.lease_principal, held.last_principal), false)
$$;
