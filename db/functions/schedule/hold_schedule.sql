-- hold_schedule: the schedule of this name, locked; refused as not_found when there is none that the caller may touch.
create or replace function celeriac.hold_schedule(name text, only_types text[]) returns celeriac.schedule
language plpgsql volatile as $$
declare
    held celeriac.schedule;
begin
    select s.* into held from celeriac.schedule s where s.name = hold_schedule.name for update;
    if not found or not celeriac.may_touch(held.task ->> 'task_type', only_types) then
        perform celeriac.refuse('not_found', 'there is no such schedule');
    end if;
    return held;
end $$;
