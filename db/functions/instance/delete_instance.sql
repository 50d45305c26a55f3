-- delete_instance: an ended instance and all that is known of it -> nothing; its tasks go by purge_ended.
-- Refuses: not_found (`if_there`: does nothing then); invalid for one that is open.
create or replace function celeriac.delete_instance(instance_id uuid, principal text default null, if_there boolean default false) returns void
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.instance;
begin
    select i.* into held from celeriac.instance i where i.id = delete_instance.instance_id for update;
    if not found and if_there then
        return;
    elsif not found then
        perform celeriac.refuse('not_found', 'there is no such instance');
    elsif held.ended_at is null then
        perform celeriac.refuse('invalid', 'the instance has not ended', 'instance_id');
    end if;
    perform celeriac.forget_instance(held.id);
end $$;
