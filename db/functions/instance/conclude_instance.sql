-- conclude_instance: what follows when an instance has ended: nothing of it waits any more; its variables stay to be read.
create or replace function celeriac.conclude_instance(instance_id uuid, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    delete from celeriac.fact f where f.instance_id = conclude_instance.instance_id;
    delete from celeriac.event_wait w where w.instance_id = conclude_instance.instance_id;
    delete from celeriac.token t where t.instance_id = conclude_instance.instance_id;
    delete from celeriac.undo_run r where r.instance_id = conclude_instance.instance_id;
    update celeriac.incident i set resolved_at = moment, resolution = 'the instance ended'
     where i.instance_id = conclude_instance.instance_id and i.resolved_at is null;
end $$;
