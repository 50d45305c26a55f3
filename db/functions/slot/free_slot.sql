-- free_slot: lets go of the slot that a task held, when its lease ends; nothing for a task without a concurrency key.
-- Waits for nobody: the next of its key is let in by whoever looks at the opening that is left here (open_slots).
create or replace function celeriac.free_slot(held celeriac.queue) returns void
language plpgsql volatile as $$
begin
    if held.concurrency_key is null then
        return;
    end if;
    delete from celeriac.slot s where s.task_id = held.task_id;
    -- One that was READY had been let in, and makes room as well.
    if found or held.state = 'READY' then
        insert into celeriac.opening (task_type, key) values (held.task_type, held.concurrency_key);
    end if;
end $$;
