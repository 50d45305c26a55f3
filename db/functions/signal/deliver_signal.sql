-- deliver_signal: gives a signal to those who wait for it, the one who waits longest first: to one, or (broadcast) to all, at
-- most max_tasks of them. `unfinished`: somebody was at a waiter, or there are more of them, so it must be tried again.
-- The caller holds the topic and key: nobody begins to wait meanwhile.
create or replace function celeriac.deliver_signal(sent celeriac.signal, max_tasks integer)
returns table (delivered integer, task_types text[], unfinished boolean)
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    place record;
    task_type text;
begin
    delivered := 0; task_types := '{}'; unfinished := false;
    for place in
        select w.task_id, w.branch, w.ordinal from celeriac.wait w
         where w.topic = sent.topic and w.key = sent.key and w.armed order by w.since, w.task_id
    loop
        if delivered = max_tasks then
            unfinished := true;
            exit;
        end if;
        continue when sent.only_types is not null and not exists (
            select from celeriac.task t where t.id = place.task_id and celeriac.may_touch(t.task_type, sent.only_types));
        continue when sent.broadcast and exists (
            select from celeriac.signal_receipt r where r.signal_id = sent.id and r.task_id = place.task_id);
        if not celeriac.hold_waiting(place.task_id) then
            unfinished := unfinished or exists (select from celeriac.waiting w where w.task_id = place.task_id);
        elsif celeriac.end_wait(place.task_id, place.branch, place.ordinal, celeriac.signal_result(sent), moment) then
            perform celeriac.hand_over(sent, place.task_id, moment);
            task_type := celeriac.rouse_task(place.task_id, moment);
            delivered := delivered + 1;
            if task_type <> all (task_types) then
                task_types := task_types || task_type;
            end if;
            exit when not sent.broadcast;
        end if;
    end loop;
    unfinished := unfinished and (sent.broadcast or delivered = 0);
    if delivered > 0 then
        perform celeriac.ring(task_types);
    end if;
    return next;
end $$;
