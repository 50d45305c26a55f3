-- ring_when_allowed: asks for a ring of a rate-limited type that a fleet serves, for the time when it may hand out the next
-- task; one such ring waits at most. Whoever comes while another asks leaves it to that one.
create or replace function celeriac.ring_when_allowed(due celeriac.rate_left, moment timestamptz) returns void
language plpgsql volatile as $$
declare
    queue text := (select t.queue from celeriac.task_type t where t.name = due.task_type and t.delivery = 'celery');
begin
    if queue is null then
        return;
    end if;
    perform from celeriac.rate r
      where r.task_type = due.task_type and not (r.rung_for > moment and r.rung_for <= due.next_at) for update skip locked;
    if found then
        update celeriac.rate r set rung_for = due.next_at where r.task_type = due.task_type;
        insert into celeriac.outbox (channel, key, payload, due_at, created_at)
        values ('ring', queue, jsonb_build_object('task_type', due.task_type), due.next_at, moment);
    end if;
end $$;
