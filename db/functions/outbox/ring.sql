-- ring: asks for a Celery message for each of these types that a fleet serves: one row a type and call, whatever the backlog.
create or replace function celeriac.ring(task_types text[]) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
begin
    insert into celeriac.outbox (channel, key, payload, due_at, created_at)
    select 'ring', t.queue, jsonb_build_object('task_type', t.name), moment, moment
      from celeriac.task_type t
     where t.name = any (task_types) and t.delivery = 'celery';
end $$;
