-- drop_tasks: cancels the open tasks of tokens that no longer want them. The tokens are gone or stand elsewhere, so the
-- facts that this leaves are about nothing.
create or replace function celeriac.drop_tasks(held celeriac.instance, token_uids jsonb) returns void
language plpgsql volatile as $$
declare
    open_task uuid;
begin
    for open_task in
        select t.id from celeriac.task t
         where t.token_id = any (array(select jsonb_array_elements_text(token_uids)::uuid)) and t.state in ('OPEN', 'WAITING')
         order by t.id
    loop
        perform celeriac.stop_task(open_task, 'the process no longer wants it', false, held.principal, false);
    end loop;
end $$;
