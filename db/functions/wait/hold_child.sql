-- hold_child: try_child, and when somebody is at the task, 50 ms more; so no two transactions can wait for each other here for
-- longer.
create or replace function celeriac.hold_child(child_id uuid) returns text
language plpgsql volatile as $$
declare
    state text := celeriac.try_child(hold_child.child_id);
begin
    return case when state = 'BUSY' then celeriac.hold_child_soon(hold_child.child_id) else state end;
end $$;
