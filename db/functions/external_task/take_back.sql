-- take_back: a task that a worker held last is LOCKED for it again, also one that has FAILED, so that it can end it now; the attempt goes
-- on. One that it holds stays as it is.
create or replace function celeriac.take_back(held celeriac.queue) returns celeriac.queue
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
begin
    if held.state = 'LOCKED' and held.lease_expires_at > moment then
        return held;
    elsif held.state = 'FAILED' then
        perform celeriac.reopen_failed(held.task_id);
    elsif held.state <> 'LOCKED' then
        perform celeriac.free_slot(held);  -- one that was READY had been let in, and makes room
    end if;
    return celeriac.take_over(held, coalesce(held.lease_owner, held.last_owner), coalesce(held.lease_principal, held.last_principal),
                              60000, moment, false);
end $$;
