-- stop_instance: ACTIVE | COMPENSATING -> (by the advance that follows) CANCELED, or COMPENSATING first.
-- Stopping again holds; one that ended otherwise is refused (already_ended; `if_open`: answers nothing then).
create or replace function celeriac.stop_instance(
    instance_id uuid, reason text default null, compensate boolean default false, principal text default null,
    if_open boolean default false)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.instance;
begin
    select i.* into held from celeriac.instance i where i.id = stop_instance.instance_id for update;
    if if_open and (held.id is null or held.ended_at is not null) then
        return;
    elsif held.id is null then
        perform celeriac.refuse('not_found', 'there is no such instance');
    elsif held.ended_at is not null and held.status <> 'CANCELED' then
        perform celeriac.refuse('already_ended', 'the instance has ended as ' || held.status);
    end if;
    if held.ended_at is null then
        update celeriac.instance i set reason = celeriac.cut_text(stop_instance.reason, 8192), suspended = false where i.id = held.id;
        if held.suspended then
            perform celeriac.let_stand(held.id, false);
        end if;
        perform celeriac.tell_instance(held.id, 'stopped', null, jsonb_build_object('compensate', coalesce(compensate, false)));
    end if;
    return query select held.id, held.ended_at is null;
end $$;
