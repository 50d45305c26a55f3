-- fire_schedule: a due slot -> a task, and the schedule waits for its next slot; both or neither.
-- Only if the schedule still is as it was seen (next_at = due_at, updated_at = seen_at): so many may run it at once, and
-- each slot fires once. A slot of null fires nothing, it only goes on: what it passes over is missed, or `error` says why.
-- FIRED; PASSED; GONE: somebody else had it, or it was changed; LATER: as many have started in this second as may.
create or replace function celeriac.fire_schedule(
    name text, due_at timestamptz, seen_at timestamptz, slot_at timestamptz, next_at timestamptz, missed bigint default 0,
    error text default null, starts_per_second integer default 100)
returns table (outcome text, task_id uuid, task_type text, state text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    held celeriac.schedule;
    made record;
begin
    perform celeriac.check_range(starts_per_second, 1, 1000000, 'starts_per_second'),
            celeriac.check_range(fire_schedule.missed, 0, 1000000000, 'missed');
    if due_at > moment or slot_at not between due_at and moment then
        perform celeriac.refuse('invalid', 'a slot must be due, and at or before now', 'slot_at');
    elsif fire_schedule.next_at <= greatest(due_at, slot_at) then
        perform celeriac.refuse('invalid', 'next_at must be later than the slot', 'next_at');
    end if;
    -- Skipped when locked: somebody is firing or changing it, and it is looked at again a second later.
    select s.* into held from celeriac.schedule s
     where s.name = fire_schedule.name and s.next_at = due_at and s.updated_at = seen_at for update skip locked;
    if not found then
        return query select 'GONE', null::uuid, null::text, null::text;
        return;
    end if;
    if slot_at is not null then
        if not celeriac.may_start(starts_per_second) then
            return query select 'LATER', null::uuid, null::text, null::text;
            return;
        end if;
        select e.* into made from celeriac.enqueue_tasks(jsonb_build_array(celeriac.task_of_slot(held, slot_at)), held.principal) e;
        held.last_slot_at := slot_at;
        held.last_task_id := made.task_id;
        held.fired := held.fired + 1;
        held.error := null;
    else
        held.error := coalesce(celeriac.cut_text(fire_schedule.error, 8192), held.error);
    end if;
    update celeriac.schedule s
       set next_at = fire_schedule.next_at, last_slot_at = held.last_slot_at, last_task_id = held.last_task_id,
           fired = held.fired, missed = held.missed + fire_schedule.missed, error = held.error
     where s.name = fire_schedule.name;
    if slot_at is null then
        return query select 'PASSED', null::uuid, null::text, null::text;
    else
        return query select 'FIRED', made.task_id, made.task_type, made.state;
    end if;
end $$;
