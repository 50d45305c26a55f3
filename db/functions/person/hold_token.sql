-- hold_token: a token that a person or a program works for by its id, locked: of several that end it at once, one does.
-- Refuses: not_found: one that is gone, or about to leave by what nobody has worked in yet.
create or replace function celeriac.hold_token(token_uid uuid) returns celeriac.token
language plpgsql volatile as $$
declare
    at celeriac.token;
begin
    -- A message or a timer that is for it at this moment takes turns with us, see throw_event. As an advance does it: waits before tokens.
    perform pg_advisory_xact_lock(celeriac.event_lock('token', hold_token.token_uid::text)), celeriac.hold_interruptions(array[hold_token.token_uid]);
    select t.* into at from celeriac.token t where t.uid = hold_token.token_uid for update;
    if at.uid is null or not celeriac.still_waits(at.instance_id, at.id) then
        perform celeriac.refuse('not_found', 'there is no such token');
    end if;
    return at;
end $$;
