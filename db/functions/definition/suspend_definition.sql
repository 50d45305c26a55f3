-- suspend_definition: no instance of a definition is started any more; or they may be again, also where that was for later.
-- Instances that there are go on. Refuses: not_found.
create or replace function celeriac.suspend_definition(definition_id uuid, suspended boolean, principal text default null) returns void
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    update celeriac.definition d
       set suspended = suspend_definition.suspended, active_from = case when suspend_definition.suspended then d.active_from end
     where d.id = suspend_definition.definition_id;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such process definition');
    end if;
end $$;
