-- hold_waits: waits that an event is about to reach, locked: nobody ends what they are for at the same time (hold_interruptions).
create or replace function celeriac.hold_waits(fitting celeriac.fitting_wait[]) returns void
language plpgsql volatile as $$
begin
    perform from celeriac.event_wait w
      where (w.instance_id, w.id) in (select f.instance_id, f.wait_id from unnest(fitting) f)
      order by w.instance_id, w.id for update;
end $$;
