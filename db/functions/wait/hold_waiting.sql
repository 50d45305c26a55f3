-- hold_waiting: locks a waiting task against everybody else who would wake or end it; false when it does not wait, or when
-- somebody is at it. Never waits for another transaction, so that one who holds other rows can ask.
create or replace function celeriac.hold_waiting(task_id uuid) returns boolean
language plpgsql volatile as $$
begin
    perform from celeriac.waiting w where w.task_id = hold_waiting.task_id for update skip locked;
    return found;
end $$;
