-- hold_course: what an advance is about to open, change and close of the waits of its instance, and what it throws, locked ahead of
-- all else that it locks: the names, as throw_event locks them, then the rows.
create or replace function celeriac.hold_course(instance_id uuid, decision jsonb) returns void
language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock(celeriac.event_lock(n.kind, n.name))
       from (select distinct w ->> 'kind' as kind, w ->> 'name' as name from jsonb_array_elements(decision -> 'put_waits') w
              where w ->> 'name' is not null
             union select 'signal', s ->> 'name' from jsonb_array_elements(decision -> 'signals') s
              order by 1, 2) n;
    perform from celeriac.event_wait w
      where w.instance_id = hold_course.instance_id
        and w.id = any (array(select d::integer from jsonb_array_elements_text(decision -> 'drop_waits') d
                               union all select (p ->> 'id')::integer from jsonb_array_elements(decision -> 'put_waits') p))
      order by w.id for update;
end $$;
