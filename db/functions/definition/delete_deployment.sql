-- delete_deployment: a deployment with its files and definitions -> nothing; unless there are instances, also such as have ended.
-- `cascade`: these go as well, a bounded batch a call: open ones are stopped and answered for the engine to end, ended ones are
-- forgotten; from the first call on none is started. `heirs`: what begins instances of the versions that are the newest afterwards.
create or replace function celeriac.delete_deployment(
    deployment_id uuid, cascade boolean default false, heirs jsonb default '{}', principal text default null,
    max_instances integer default 100)
returns table (deleted boolean, stopped uuid[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    doomed uuid[];
    old uuid;
    heir celeriac.definition;
begin
    perform celeriac.check_range(max_instances, 1, 10000, 'max_instances');
    perform from celeriac.deployment d where d.id = delete_deployment.deployment_id for update;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such deployment');
    end if;
    doomed := array(select d.id from celeriac.definition d where d.deployment_id = delete_deployment.deployment_id order by d.id);
    deleted := false;
    stopped := '{}';
    if cascade then
        update celeriac.definition d set suspended = true where d.id = any (doomed) and not d.suspended;
        stopped := array(select i.id from celeriac.instance i where i.definition_id = any (doomed) and i.ended_at is null
                          order by i.id limit max_instances);
        perform celeriac.stop_instance(i, 'its deployment was deleted', false, delete_deployment.principal) from unnest(stopped) i;
        if stopped <> '{}' then
            return next;
            return;
        end if;
        for old in select i.id from celeriac.instance i where i.definition_id = any (doomed) order by i.id limit max_instances for update loop
            perform celeriac.forget_instance(old);
        end loop;
    end if;
    -- Whoever was about to start an instance has done so by then; whoever comes later finds no definition.
    perform pg_advisory_xact_lock(celeriac.definition_lock(d)) from unnest(doomed) d;
    if not exists (select from celeriac.instance i where i.definition_id = any (doomed)) then
        delete from celeriac.definition d where d.id = any (doomed);
        delete from celeriac.deployment d where d.id = delete_deployment.deployment_id;
        for heir in select d.* from celeriac.definition d where d.id = any (array(select jsonb_object_keys(heirs)::uuid)) loop
            if not exists (select from celeriac.definition n where n.key = heir.key and n.version > heir.version) then
                perform celeriac.open_starts(heir, heirs -> heir.id::text, moment);
            end if;
        end loop;
        deleted := true;
    end if;
    return next;
end $$;
