-- change_retries: one task of set_external_task_retries.
create or replace function celeriac.change_retries(held celeriac.queue, retries integer, principal text, only_types text[])
returns celeriac.changed_task
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    owner record;
    state text;
begin
    select t.instance_id, t.token_id into owner from celeriac.task t where t.id = held.task_id;
    if held.state = 'FAILED' and retries > 0 then
        perform celeriac.redrive_task(held.task_id, retries, principal, only_types);
    elsif held.state = 'FAILED' then
        owner.instance_id := null;
    elsif retries > 0 then
        update celeriac.queue q set retries = change_retries.retries, retries_told = true where q.task_id = held.task_id;
        owner.instance_id := null;
    else
        perform celeriac.give_up(held, principal);
    end if;
    return (held.task_id, celeriac.state_of(held.task_id), held.task_type, owner.instance_id)::celeriac.changed_task;
end $$;
