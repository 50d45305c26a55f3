-- drop_tasks: cancels the open tasks of tokens that no longer want them, and what those have asked for. The tokens are gone or
-- stand elsewhere, so the facts that this leaves are about nothing. One that somebody is at this very moment, where the caller does
-- not hold them (hold_drops), is canceled right after.
create or replace function celeriac.drop_tasks(held celeriac.instance, token_uids jsonb) returns void
language plpgsql volatile as $$
declare
    why constant text := 'the process no longer wants it';
    open_task uuid;
    state text;
begin
    for open_task in
        select t.id from celeriac.task t
         where t.token_id = any (array(select jsonb_array_elements_text(token_uids)::uuid)) and t.state in ('OPEN', 'WAITING')
         order by t.id
    loop
        state := celeriac.stop_task(open_task, why, false, held.principal, false);
        if state = 'BUSY' then
            perform celeriac.leave_follow_up('cancel', open_task, why, false, held.principal);
        elsif state = 'CANCELED' then
            perform celeriac.stop_children(open_task, why, false, held.principal);
        end if;
    end loop;
end $$;
