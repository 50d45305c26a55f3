-- start_instance: nothing -> ACTIVE: an instance with its first fact; the engine advances it, at once or later.
-- Refuses: not_found; invalid (a suspended definition, or one that only events begin). The same idempotency key of the
-- same principal: the first instance; for another process or business key it is refused (idempotency_conflict).
create or replace function celeriac.start_instance(
    definition_id uuid, variables jsonb default '{}', business_key text default null, node text default null,
    idempotency_key text default null, principal text default null, types jsonb default '{}', hops integer default 0)
returns setof celeriac.started_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    me text := coalesce(start_instance.principal, session_user);
    fresh uuid := celeriac.uuid_v7(moment);
    deployed celeriac.definition;
    first celeriac.instance;
begin
    if start_instance.business_key is not null then
        perform celeriac.check_name(start_instance.business_key, 'business_key');
    end if;
    if start_instance.idempotency_key is not null then
        perform celeriac.check_name(start_instance.idempotency_key, 'idempotency_key');
    end if;
    perform celeriac.read_variables(jsonb_build_object('variables', start_instance.variables), 'instance'),
            celeriac.check_types(start_instance.types, start_instance.variables, 'types');
    -- Who deletes the definition waits for whoever is starting it, and is seen by whoever comes later.
    perform pg_advisory_xact_lock_shared(celeriac.definition_lock(start_instance.definition_id));
    select d.* into deployed from celeriac.definition d where d.id = start_instance.definition_id;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such process definition');
    elsif not celeriac.is_active(deployed, moment) then
        perform celeriac.refuse('invalid', 'the process definition is suspended', 'definition_id');
    elsif start_instance.node is null and not deployed.startable then
        perform celeriac.refuse('invalid', 'the process is begun by an event only, not by itself', 'definition_id');
    elsif start_instance.node is not null and not deployed.graph -> 'nodes' @> jsonb_build_array(jsonb_build_object(
        'id', start_instance.node, 'kind', 'start', 'scope', deployed.graph ->> 'process')) then
        perform celeriac.refuse('invalid', 'node must be a start event of the process', 'node');
    end if;
    insert into celeriac.instance (id, definition_id, started_at, business_key, idempotency_key, principal)
    values (fresh, deployed.id, moment, start_instance.business_key, start_instance.idempotency_key, me)
        on conflict (principal, idempotency_key) where idempotency_key is not null do nothing;
    if not found then
        select i.* into first from celeriac.instance i
         where i.principal = me and i.idempotency_key = start_instance.idempotency_key;
        if first.business_key is distinct from start_instance.business_key
           or not exists (select from celeriac.definition d where d.id = first.definition_id and d.key = deployed.key)
        then
            perform celeriac.refuse('idempotency_conflict', 'the key belongs to an instance of another process or business key',
                'idempotency_key', jsonb_build_object('instance_id', first.id));
        end if;
        return query select first.id, false;
        return;
    end if;
    perform celeriac.tell_instance(fresh, 'started', null,
                jsonb_build_object('variables', start_instance.variables, 'types', start_instance.types, 'start', start_instance.node,
                                   'hops', coalesce(hops, 0)));
    return query select fresh, true;
end $$;
