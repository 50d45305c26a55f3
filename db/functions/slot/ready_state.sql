-- ready_state: the state of a task that is due: READY, or BLOCKED when others of its concurrency key come first. Thousands
-- of one key do not lie in the way of others like this. Nothing hangs on it: what is READY in vain is blocked by its claim.
create or replace function celeriac.ready_state(task_type text, key text, version integer) returns text
language plpgsql volatile as $$
begin
    if key is null or not exists (select from celeriac.task_type t where t.name = ready_state.task_type and t.concurrency is not null)
       or (celeriac.slots_left(task_type, key, version) > 0 and not exists (
               select from celeriac.queue q
                where q.task_type = ready_state.task_type and q.concurrency_key = ready_state.key and q.version = ready_state.version
                  and q.state = 'BLOCKED')) then
        return 'READY';
    end if;
    insert into celeriac.opening (task_type, key) values (ready_state.task_type, ready_state.key);
    return 'BLOCKED';
end $$;
