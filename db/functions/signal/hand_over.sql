-- hand_over: writes down that a task has got a signal.
create or replace function celeriac.hand_over(sent celeriac.signal, task_id uuid, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    if sent.broadcast then
        insert into celeriac.signal_receipt (signal_id, task_id, taken_at) values (sent.id, hand_over.task_id, moment);
    else
        update celeriac.signal s set taken_at = moment, taken_by = hand_over.task_id where s.id = sent.id;
    end if;
end $$;
