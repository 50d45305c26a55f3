-- try_child: sees to it that a task cannot end before this transaction has. HELD: it is open and stays so until then.
-- ENDED: it had ended. BUSY: somebody is at it, and may be ending it. Never waits for another transaction.
create or replace function celeriac.try_child(child_id uuid) returns text
language plpgsql volatile as $$
begin
    -- An end takes the row that holds the open task: that of the queue, or of `waiting`.
    perform from celeriac.queue q where q.task_id = try_child.child_id for key share skip locked;
    if found then
        return 'HELD';
    end if;
    perform from celeriac.waiting w where w.task_id = try_child.child_id for key share skip locked;
    return case when found then 'HELD' when celeriac.outcome_of(try_child.child_id) is not null then 'ENDED' else 'BUSY' end;
end $$;
