-- interrupted: those of the tasks that their process no longer wants, though they are still open. The others it goes on to want until
-- this transaction ends (hold_interruptions). Of one that has ended nothing is said here: the same completion again holds.
create or replace function celeriac.interrupted(task_ids uuid[]) returns uuid[]
language plpgsql volatile as $$
declare
    token_uids uuid[] := array(select t.token_id from celeriac.task t
                                where t.id = any (task_ids) and t.token_id is not null and t.state not in ('COMPLETED', 'CANCELED'));
begin
    if token_uids = '{}' then
        return '{}';
    end if;
    perform celeriac.hold_interruptions(token_uids);
    return array(select t.id from celeriac.task t
                  where t.id = any (task_ids) and t.token_id is not null and t.state not in ('COMPLETED', 'CANCELED')
                    and celeriac.is_left(t.token_id));
end $$;
