-- take_kept_events: events that were kept and that the new waits of an instance are for: each becomes a fact, a message once, a
-- signal once for each instance (all of its waits that are new at that time): else one that waits in a circle would go round by it. The names are held (hold_course).
create or replace function celeriac.take_kept_events(instance_id uuid, wait_ids integer[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    moved celeriac.instance;
    opened celeriac.event_wait;
    kept celeriac.kept_event;
    heard uuid[] := '{}';
    taken integer := 0;
begin
    select i.* into moved from celeriac.instance i where i.id = take_kept_events.instance_id;
    for opened in select w.* from celeriac.event_wait w
                   where w.instance_id = take_kept_events.instance_id and w.id = any (wait_ids) and w.name is not null
                   order by w.kind, w.name loop
        for kept in select k.* from celeriac.kept_event k
                     where k.kind = opened.kind and k.name = opened.name and k.expires_at > moment
                       and (k.business_key is null or k.business_key = moved.business_key)
                       and not exists (select from celeriac.kept_event_receipt r where r.event_id = k.id and r.instance_id = moved.id
                                                                                   and k.id <> all (heard))
                     order by k.id for update loop
            if exists (select from celeriac.fitting_waits(kept.kind, kept.name, kept.business_key, kept.correlation, opened.instance_id,
                                                               kept.only_types) f
                        where f.wait_id = opened.id) then
                perform celeriac.tell_instance(opened.instance_id, 'happened', null, jsonb_build_object('variables', kept.variables), opened.id);
                taken := taken + 1;
                if kept.kind = 'message' then
                    delete from celeriac.kept_event k where k.id = kept.id;
                else
                    heard := heard || kept.id;
                    insert into celeriac.kept_event_receipt (event_id, instance_id) values (kept.id, opened.instance_id) on conflict do nothing;
                end if;
                exit;
            end if;
        end loop;
    end loop;
    return taken;
end $$;
