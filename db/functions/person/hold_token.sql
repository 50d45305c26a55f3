-- hold_token: a token that a person or a program works for by its id, locked: of several that end it at once, one does.
-- Refuses: not_found: one that is gone, or about to leave by what nobody has worked in yet.
create or replace function celeriac.hold_token(token_uid uuid) returns celeriac.token
language plpgsql volatile as $$
declare
    at celeriac.token;
begin
    select t.* into at from celeriac.token t where t.uid = hold_token.token_uid for update;
    -- A message or a timer that is for it at this moment takes turns with us, see throw_event.
    perform pg_advisory_xact_lock(celeriac.event_lock('token', at.uid::text)), celeriac.hold_interruptions(array[at.uid]);
    if at.uid is null or not celeriac.still_waits(at.instance_id, at.id) then
        perform celeriac.refuse('not_found', 'there is no such token');
    end if;
    return at;
end $$;
