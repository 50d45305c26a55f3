-- check_wanted: refuses (not_found) an external task that its process no longer wants, as if it had been taken away already. The process
-- goes on to want another until this transaction ends. Comes before the queue row is held.
create or replace function celeriac.check_wanted(task_id uuid) returns void
language plpgsql volatile as $$
begin
    -- The row of the instance first, as everywhere (see hold_external).
    perform from celeriac.instance i join celeriac.task t on t.instance_id = i.id where t.id = check_wanted.task_id and t.state = 'FAILED'
       for share of i;
    if celeriac.interrupted(array[task_id]) <> '{}' then
        perform celeriac.refuse('not_found', 'there is no such task', null, jsonb_build_object('task_id', task_id));
    end if;
end $$;
