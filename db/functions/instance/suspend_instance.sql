-- suspend_instance: an open instance stands still: what happens to it is kept, and worked in when it is resumed; its tasks are not
-- handed out meanwhile, but who holds one may end it. Refuses: not_found (`if_open`: answers nothing then).
create or replace function celeriac.suspend_instance(
    instance_id uuid, suspended boolean, principal text default null, if_open boolean default false)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    if suspend_instance.suspended is null then
        perform celeriac.refuse('invalid', 'suspended must be true or false', 'suspended');
    end if;
    update celeriac.instance i set suspended = suspend_instance.suspended
     where i.id = suspend_instance.instance_id and i.ended_at is null;
    if not found and if_open then
        return;
    elsif not found then
        perform celeriac.refuse('not_found', 'there is no such open instance');
    end if;
    perform celeriac.let_stand(suspend_instance.instance_id, suspend_instance.suspended);
    return query select suspend_instance.instance_id, suspend_instance.suspended;
end $$;
