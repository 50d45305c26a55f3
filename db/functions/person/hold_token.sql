-- hold_token: a token that a person or a program works for by its id, locked: of several that end it at once, one does.
-- Refuses: not_found: one that is gone, or ended and not worked in yet.
create or replace function celeriac.hold_token(token_uid uuid) returns celeriac.token
language plpgsql volatile as $$
declare
    at celeriac.token;
begin
    select t.* into at from celeriac.token t where t.uid = hold_token.token_uid for update;
    if not found or exists (select from celeriac.fact f
                             where f.instance_id = at.instance_id and f.token_uid = at.uid and f.kind in ('completed', 'thrown')) then
        perform celeriac.refuse('not_found', 'there is no such token');
    end if;
    return at;
end $$;
