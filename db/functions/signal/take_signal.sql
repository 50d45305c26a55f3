-- take_signal: the oldest signal of a topic and key that is kept for this task, as its step holds it; null when there is none.
-- One for a single taker is taken from now on; of a broadcast a task gets its own once. The caller holds the topic and key;
-- one that is just being forgotten, since it has expired meanwhile, is passed over.
create or replace function celeriac.take_signal(task_id uuid, task_type text, topic text, key text, moment timestamptz) returns jsonb
language plpgsql volatile as $$
declare
    kept celeriac.signal;
begin
    select s.* into kept from celeriac.signal s
     where s.topic = take_signal.topic and s.key = take_signal.key and s.taken_at is null and s.expires_at > moment
       and celeriac.may_touch(take_signal.task_type, s.only_types)
       and not (s.broadcast and exists (select from celeriac.signal_receipt r
                                         where r.signal_id = s.id and r.task_id = take_signal.task_id))
     order by s.id limit 1 for update skip locked;
    if not found then
        return null;
    end if;
    perform celeriac.hand_over(kept, take_signal.task_id, moment);
    return celeriac.signal_result(kept);
end $$;
