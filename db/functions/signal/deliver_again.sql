-- deliver_again: deliver_signal for one that could not be delivered to everybody; done when nothing is left to do.
create or replace function celeriac.deliver_again(signal_id uuid) returns table (done boolean, task_types text[])
language plpgsql volatile as $$
declare
    sent celeriac.signal;
begin
    select s.* into sent from celeriac.signal s where s.id = deliver_again.signal_id;
    done := false; task_types := '{}';
    if sent.id is null then
        done := true;
    elsif pg_try_advisory_xact_lock(celeriac.signal_lock(sent.topic, sent.key)) then
        select s.* into sent from celeriac.signal s
         where s.id = deliver_again.signal_id and s.taken_at is null and s.expires_at > celeriac.now()
           for update skip locked;  -- who holds it is forgetting it
        done := not found;
        if not done then
            select not d.unfinished, d.task_types into done, task_types from celeriac.deliver_signal(sent, 1000) d;
        end if;
    end if;
    return next;
end $$;
