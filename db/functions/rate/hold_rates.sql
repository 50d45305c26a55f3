-- hold_rates: by name, how many tasks each of these types that is rate-limited may hand out now; held still until the
-- transaction ends, so claims count one after the other, by a time that is taken when it is their turn.
-- In one order, and whoever holds one waits for nothing more: waiting here ends.
create or replace function celeriac.hold_rates(task_types text[]) returns jsonb
language plpgsql volatile as $$
declare
    one text;
begin
    for one in
        select t.name from celeriac.task_type t where t.name = any (task_types) and t.rate_tasks is not null order by t.name
    loop
        perform from celeriac.rate r where r.task_type = one for update;
    end loop;
    return (select coalesce(jsonb_object_agg(l.task_type, l.tasks), '{}') from celeriac.rate_left(task_types, celeriac.now()) l);
end $$;
