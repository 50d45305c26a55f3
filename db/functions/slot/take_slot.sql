-- take_slot: a slot of a concurrency key for a task that is being claimed; false when there is none for it.
-- Waits for nobody. Whoever takes a slot holds the lock of its number until the transaction ends, so two never insert the
-- same one; locks are few (4096 for all keys), and a number whose lock another key holds counts as taken: the task becomes
-- BLOCKED for a moment too long. The shared lock keeps the limit as it is read here (see change_limit).
create or replace function celeriac.take_slot(task_type text, key text, task_id uuid) returns boolean
language plpgsql volatile as $$
declare
    at_most integer;
    taken integer[];
    place integer := 1;
begin
    if not pg_try_advisory_xact_lock_shared(hashtext('celeriac.concurrency'), hashtext(task_type)) then
        return false;
    end if;
    at_most := (select t.concurrency from celeriac.task_type t where t.name = take_slot.task_type);
    if at_most is null then
        return true;
    end if;
    taken := array(select s.number from celeriac.slot s
                    where s.task_type = take_slot.task_type and s.key = take_slot.key order by s.number);
    for nth in 1 .. celeriac.highest_slot(taken, at_most) loop
        if taken[place] = nth then
            place := place + 1;
            continue;
        end if;
        continue when not pg_try_advisory_xact_lock(hashtext('celeriac.slot'), hashtext(task_type || ' ' || key || ' ' || nth) & 4095);
        -- A statement of its own, with a new snapshot: somebody may have taken it, and committed, since we looked.
        continue when exists (select from celeriac.slot s
                               where s.task_type = take_slot.task_type and s.key = take_slot.key and s.number = nth);
        insert into celeriac.slot (task_type, key, number, task_id)
        values (take_slot.task_type, take_slot.key, nth, take_slot.task_id);
        return true;
    end loop;
    return false;
end $$;
