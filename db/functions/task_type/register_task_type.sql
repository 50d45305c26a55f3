-- register_task_type: nothing | a task type -> the task type with these settings; what is null stays as it is.
-- Limits (concurrency; rate_tasks with rate_ms) are taken away by 0. They hold for tasks that are open already, too.
create or replace function celeriac.register_task_type(
    name text, lease_ms bigint default null, retries integer default null, backoff_first_ms bigint default null,
    backoff_factor double precision default null, backoff_cap_ms bigint default null, backoff_jitter double precision default null,
    expirations integer default null, delivery text default null, queue text default null,
    concurrency integer default null, rate_tasks integer default null, rate_ms bigint default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.task_type
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    before celeriac.task_type;
begin
    perform celeriac.check_task_type(register_task_type.name, register_task_type.lease_ms, register_task_type.retries,
                register_task_type.backoff_first_ms, register_task_type.backoff_factor, register_task_type.backoff_cap_ms,
                register_task_type.backoff_jitter, register_task_type.expirations, register_task_type.delivery, register_task_type.queue),
            celeriac.check_limits(register_task_type.concurrency, register_task_type.rate_tasks, register_task_type.rate_ms);
    if not celeriac.may_touch(register_task_type.name, only_types) then
        perform celeriac.refuse('forbidden', 'name is not among the task types of this principal', 'name');
    end if;
    if register_task_type.queue is not null and register_task_type.delivery is null and not exists (
        select from celeriac.task_type t where t.name = register_task_type.name and t.delivery = 'celery') then
        perform celeriac.refuse('invalid', 'queue is for delivery celery only', 'queue');
    end if;
    insert into celeriac.task_type (name, created_at, updated_at) values (register_task_type.name, moment, moment)
        on conflict do nothing;
    select t.* into before from celeriac.task_type t where t.name = register_task_type.name for update;
    update celeriac.task_type t
       set lease_ms = coalesce(register_task_type.lease_ms, t.lease_ms),
           retries = coalesce(register_task_type.retries, t.retries),
           backoff_first_ms = coalesce(register_task_type.backoff_first_ms, t.backoff_first_ms),
           backoff_factor = coalesce(register_task_type.backoff_factor, t.backoff_factor),
           backoff_cap_ms = coalesce(register_task_type.backoff_cap_ms, t.backoff_cap_ms),
           backoff_jitter = coalesce(register_task_type.backoff_jitter, t.backoff_jitter),
           expirations = coalesce(register_task_type.expirations, t.expirations),
           delivery = d.delivery,
           queue = case when d.delivery = 'celery' then coalesce(register_task_type.queue, t.queue, 'celery') end,
           concurrency = nullif(coalesce(register_task_type.concurrency, t.concurrency), 0),
           rate_tasks = nullif(coalesce(register_task_type.rate_tasks, register_task_type.rate_ms, t.rate_tasks), 0),
           rate_ms = nullif(coalesce(register_task_type.rate_ms, register_task_type.rate_tasks, t.rate_ms), 0),
           updated_at = moment
      from (select coalesce(register_task_type.delivery, before.delivery) as delivery) d
     where t.name = register_task_type.name;
    if nullif(coalesce(register_task_type.concurrency, before.concurrency), 0) is distinct from before.concurrency then
        perform celeriac.change_limit(register_task_type.name, before.concurrency);
    end if;
    if register_task_type.rate_tasks > 0 then
        insert into celeriac.rate (task_type) values (register_task_type.name) on conflict do nothing;
    end if;
    if register_task_type.delivery = 'celery' and celeriac.waited_since(register_task_type.name) is not null then
        -- What was enqueued before any fleet was there has got no ring.
        perform celeriac.ring(array[register_task_type.name]);
    end if;
    return query select t.* from celeriac.task_type t where t.name = register_task_type.name;
end $$;
