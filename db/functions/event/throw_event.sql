-- throw_event: a message or signal reaches what waits for it. A message reaches exactly one (or, `everyone`, all that fit): the
-- instances that wait for its name and have the business key and the variables of `correlation`, else a start event. A signal
-- reaches all. Each instance gets a fact; starts are answered for the engine to begin. With `ttl_ms` an event that reaches nobody is kept.
-- Refuses: conflict-free by design; invalid when a message fits several; not_found when nobody waits and it is not kept.
create or replace function celeriac.throw_event(
    kind text, name text, variables jsonb default '{}', business_key text default null, correlation jsonb default '{}',
    everyone boolean default false, instance_id uuid default null, ttl_ms bigint default 0, principal text default null,
    only_types text[] default null, types jsonb default '{}')
returns setof celeriac.reached_instance
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    reached record;
    count integer := 0;
    starts integer := 0;
begin
    perform celeriac.check_name(throw_event.name, 'name'), celeriac.check_range(ttl_ms, 0, 3155760000000, 'ttl_ms');
    if throw_event.kind not in ('message', 'signal') then
        perform celeriac.refuse('invalid', 'kind must be message or signal', 'kind');
    end if;
    perform celeriac.read_variables(jsonb_build_object('variables', throw_event.variables), 'event');
    -- Who waits for this name, and who throws it, take turns: neither can miss the other.
    perform pg_advisory_xact_lock(celeriac.event_lock(throw_event.kind, throw_event.name));
    if throw_event.kind = 'message' and not everyone and 1 < (
        select count(distinct f.instance_id) from celeriac.fitting_waits(throw_event.kind, throw_event.name, throw_event.business_key,
                                                                         throw_event.correlation, throw_event.instance_id, only_types) f) then
        perform celeriac.refuse('invalid', 'several instances wait for this message and fit', 'correlation');
    end if;
    for reached in select f.* from celeriac.fitting_waits(throw_event.kind, throw_event.name, throw_event.business_key,
                                                          throw_event.correlation, throw_event.instance_id, only_types) f loop
        perform celeriac.tell_instance(reached.instance_id, 'happened', null,
                    jsonb_build_object('variables', throw_event.variables, 'types', throw_event.types), reached.wait_id);
        count := count + 1;
        return query select reached.instance_id, null::uuid, false;
        exit when throw_event.kind = 'message' and not everyone;
    end loop;
    if throw_event.instance_id is null and (count = 0 or everyone or throw_event.kind = 'signal') then
        for reached in select w.definition_id, w.node from celeriac.start_wait w
                        where w.kind = throw_event.kind and w.name = throw_event.name
                          and celeriac.may_move(w.definition_id, only_types) order by w.definition_id loop
            return query
            select s.instance_id, reached.definition_id, true
              from celeriac.start_instance(reached.definition_id, throw_event.variables, throw_event.business_key, reached.node, null,
                                           throw_event.principal, throw_event.types) s;
            starts := starts + 1;
            exit when throw_event.kind = 'message' and not everyone;
        end loop;
    end if;
    if count + starts = 0 and ttl_ms > 0 then
        insert into celeriac.kept_event (id, sent_at, expires_at, kind, name, business_key, correlation, variables, sender, only_types)
        values (celeriac.uuid_v7(moment), moment, moment + ttl_ms * interval '1 millisecond', throw_event.kind, throw_event.name,
                throw_event.business_key, throw_event.correlation, throw_event.variables, coalesce(throw_event.principal, session_user), only_types);
    elsif count + starts = 0 and throw_event.kind = 'message' then
        perform celeriac.refuse('not_found', 'nothing waits for this message', 'name');
    end if;
end $$;
