-- read_tasks: the items of enqueue_tasks, read at the door, with ids that keep their order.
create or replace function celeriac.read_tasks(tasks jsonb, moment timestamptz, only_types text[])
returns celeriac.asked_task[]
language plpgsql volatile as $$
declare
    asked celeriac.asked_task[];
    foreign_place text;
begin
    select array_agg(row(
               i.ordinality - 1, celeriac.uuid_v7(moment + i.ordinality * interval '1 microsecond'), c.task_type, c.version,
               c.priority, coalesce(c.retries, t.retries, 3),
               d.due_at, d.due_at,
               c.business_key, c.idempotency_key, c.fairness_key, c.token_id, c.instance_id, c.variables, c.policy,
               c.concurrency_key, case when d.due_at > moment then 'SCHEDULED' else 'READY' end)::celeriac.asked_task
               order by i.ordinality)
      into asked
      from jsonb_array_elements(tasks) with ordinality i
     cross join lateral celeriac.check_task_item(i.value, format('tasks[%s]', i.ordinality - 1)) c
     cross join lateral (
           select greatest(coalesce(c.run_at, moment + coalesce(c.delay_ms, 0) * interval '1 millisecond'), moment) as due_at) d
      left join celeriac.task_type t on t.name = c.task_type;
    if only_types is not null then
        select format('tasks[%s].task_type', a.ordinal) into foreign_place
          from unnest(asked) a where not celeriac.may_touch(a.task_type, only_types) limit 1;
        if found then
            perform celeriac.refuse('forbidden', foreign_place || ' is not among the task types of this principal', foreign_place);
        end if;
    end if;
    return asked;
end $$;
