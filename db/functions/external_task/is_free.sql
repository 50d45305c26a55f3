-- is_free: whether anybody may take a task: nobody holds it, and what the last worker left it to rest is over.
create or replace function celeriac.is_free(held celeriac.queue, moment timestamptz) returns boolean
language sql immutable as $$
    select case held.state
        when 'LOCKED' then held.lease_expires_at <= moment
        when 'SCHEDULED' then coalesce(held.last_until, held.held_until, held.run_at) <= moment
        else held.state <> 'FAILED' end
$$;
