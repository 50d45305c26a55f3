-- throw_event: a message or signal reaches what waits for it. A message reaches exactly one (or, `everyone`, all that fit): the
-- instances that wait for its name and have the business key and the variables of `correlation`, else a start event. A signal
-- reaches all, or (`token_id`) what waits at one token. Each instance gets a fact; starts are answered for the engine to begin. With
-- `ttl_ms` an event that reaches nobody is kept. `strict`, as in Camunda 7: see fitting_waits; and tokens are counted, not instances,
-- and start events as well, where one is to be reached. `patient`: it waits for whoever is ending work that it may interrupt; an advance
-- that throws a signal does not, since it holds an instance. `hops`: how many advances have led to this one without waiting.
-- Refuses: conflict-free by design; invalid when a message fits several; not_found when nobody waits and it is not kept.
create or replace function celeriac.throw_event(
    kind text, name text, variables jsonb default '{}', business_key text default null, correlation jsonb default '{}',
    everyone boolean default false, instance_id uuid default null, ttl_ms bigint default 0, principal text default null,
    only_types text[] default null, types jsonb default '{}', local_variables jsonb default '{}', local_types jsonb default '{}',
    strict boolean default false, local_correlation jsonb default '{}', token_id uuid default null,
    patient boolean default true, hops integer default 0)
returns setof celeriac.reached_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    one boolean := throw_event.kind = 'message' and not everyone or throw_event.token_id is not null;  -- who is promised that it is heard
    reached record;
    fitting celeriac.fitting_wait[];
    beginnings celeriac.start_wait[] := '{}';
    told uuid[] := '{}';
    held uuid;
begin
    perform celeriac.check_name(throw_event.name, 'name'), celeriac.check_range(ttl_ms, 0, 3155760000000, 'ttl_ms');
    if throw_event.kind not in ('message', 'signal') then
        perform celeriac.refuse('invalid', 'kind must be message or signal', 'kind');
    elsif jsonb_typeof(throw_event.correlation) <> 'object' or jsonb_typeof(throw_event.local_correlation) <> 'object' then
        perform celeriac.refuse('invalid', 'correlation must be an object', 'correlation');
    end if;
    perform celeriac.read_variables(jsonb_build_object('variables', throw_event.variables), 'event'),
            celeriac.read_variables(jsonb_build_object('variables', throw_event.local_variables), 'event'),
            celeriac.check_types(throw_event.types, throw_event.variables, 'types'),
            celeriac.check_types(throw_event.local_types, throw_event.local_variables, 'local_types');
    -- Who waits for this name, and who throws it, take turns: neither can miss the other.
    perform pg_advisory_xact_lock(celeriac.event_lock(throw_event.kind, throw_event.name));
    loop
        fitting := array(select f from celeriac.fitting_waits(throw_event.kind, throw_event.name, throw_event.business_key, throw_event.correlation,
                             throw_event.instance_id, only_types, strict, local_correlation, throw_event.token_id) f);
        exit when not one or cardinality(fitting) <> 1 or held is not distinct from fitting[1].token_id;
        -- One that waits for several names is reached by one of them, and who ends its activity takes turns with us as well.
        held := fitting[1].token_id;
        perform pg_advisory_xact_lock(celeriac.event_lock('token', held::text));
        -- And whoever takes it away, by another event of its own or of what it is inside of, comes before us or after us.
        perform celeriac.hold_interruptions(array[held]);
        perform celeriac.hold_waits(fitting);
    end loop;
    if patient and not one then
        perform celeriac.hold_waits(fitting);
        -- Who left while they were looked for, or held, hears nothing any more.
        fitting := array(
            select row (f.instance_id, f.wait_id, f.token_id)::celeriac.fitting_wait
              from unnest(fitting) with ordinality f (instance_id, wait_id, token_id, place)
             where exists (select from celeriac.event_wait w where w.instance_id = f.instance_id and w.id = f.wait_id)
               and (throw_event.kind = 'signal' or not celeriac.is_left(f.token_id))
             order by f.place);
    end if;
    if one and 1 < (select count(distinct case when strict then f.token_id else f.instance_id end) from unnest(fitting) f) then
        perform celeriac.refuse('invalid', case when strict then 'several executions match' else 'several instances wait for this message and fit' end,
                    'correlation');
    end if;
    if throw_event.instance_id is null and throw_event.token_id is null and not (one and cardinality(fitting) > 0) then
        beginnings := array(
            select w from celeriac.start_wait w join celeriac.definition d on d.id = w.definition_id
             where w.kind = throw_event.kind and w.name = throw_event.name and celeriac.is_active(d, moment)
               and celeriac.may_move(w.definition_id, only_types)
             order by w.definition_id, w.node);
        if one and strict and cardinality(beginnings) > 1 then
            perform celeriac.refuse('invalid', 'several process definitions match', 'correlation');
        end if;
    end if;
    for reached in select f.* from unnest(fitting) f loop
        -- A token that waits for one name in two places goes on once.
        continue when strict and reached.token_id = any (told);
        perform celeriac.tell_instance(reached.instance_id, 'happened', null, jsonb_build_object(
            'variables', throw_event.variables, 'types', throw_event.types,
            'local_variables', throw_event.local_variables, 'local_types', throw_event.local_types, 'hops', coalesce(hops, 0)), reached.wait_id);
        told := told || reached.token_id;
        return query select reached.instance_id, null::uuid, false, reached.token_id;
        exit when one;
    end loop;
    for reached in select w.* from unnest(beginnings) w loop
        return query
        select s.instance_id, reached.definition_id, true, null::uuid
          from celeriac.start_instance(reached.definition_id, throw_event.variables || throw_event.local_variables, throw_event.business_key,
                   reached.node, null, throw_event.principal, throw_event.types || throw_event.local_types, hops) s;
        exit when one;
    end loop;
    if cardinality(fitting) + cardinality(beginnings) = 0 and ttl_ms > 0 then
        insert into celeriac.kept_event (id, sent_at, expires_at, kind, name, business_key, correlation, variables, sender, only_types)
        values (celeriac.uuid_v7(moment), moment, moment + ttl_ms * interval '1 millisecond', throw_event.kind, throw_event.name,
                throw_event.business_key, throw_event.correlation, throw_event.variables, coalesce(throw_event.principal, session_user), only_types);
    elsif cardinality(fitting) + cardinality(beginnings) = 0 and throw_event.kind = 'message' then
        perform celeriac.refuse('not_found', 'nothing waits for this message', 'name');
    end if;
end $$;
