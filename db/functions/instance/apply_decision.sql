-- apply_decision: ACTIVE | COMPENSATING -> what the token executor has decided. The caller has loaded, and so locked, the
-- instance in this transaction, and nobody else writes these rows. Each part of `decision` is what changed:
-- put_… rows as they are now, drop_… ids that are gone. With the status null it was not applied: see hold_drops.
create or replace function celeriac.apply_decision(instance_id uuid, decision jsonb)
returns setof celeriac.applied_decision
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    held celeriac.instance;
    made text[] := '{}';
    kept integer := 0;
    reached uuid[] := '{}';
    gone jsonb;
    consumed bigint[] := array(select jsonb_array_elements_text(decision -> 'consumed')::bigint);
    moves_waits boolean := decision -> 'put_waits' <> '[]' or decision -> 'drop_waits' <> '[]';
    throws boolean := decision -> 'signals' <> '[]';
begin
    select i.* into held from celeriac.instance i where i.id = apply_decision.instance_id for update;
    if not found or held.ended_at is not null then
        perform celeriac.refuse('already_ended', 'the instance has ended');
    end if;
    -- What most advances do not touch is not looked at by them.
    if moves_waits or throws then
        perform celeriac.hold_course(held.id, decision);
    end if;
    if decision -> 'drop_tasks' <> '[]' and not celeriac.hold_drops(
        held.id, array(select jsonb_array_elements_text(decision -> 'drop_tasks')::uuid), consumed) then
        return query select held.id, null::text, made, kept, reached;
        return;
    end if;
    if throws then
        -- To all that waits, itself included, as it stood until now.
        reached := array(
            select e.instance_id from jsonb_array_elements(decision -> 'signals') with ordinality s (s, place)
             cross join lateral celeriac.throw_event('signal', s ->> 'name', s -> 'variables', types => s -> 'types', patient => false,
                                                          hops => (decision ->> 'hops')::integer) e
             order by s.place);
    end if;
    delete from celeriac.fact f where f.instance_id = held.id and f.id = any (consumed);
    -- The history names tasks by their tokens, also by those that are gone in a moment.
    select jsonb_object_agg(t.id, jsonb_build_array(t.uid, t.assignee)) into gone from celeriac.token t
     where t.instance_id = held.id and t.id = any (array(select jsonb_array_elements_text(decision -> 'drop_tokens')::integer));
    perform celeriac.put_places(held.id, decision, moment);
    if moves_waits then
        perform celeriac.put_waits(held.id, decision, moment);
        kept := celeriac.take_kept_events(held.id, array(select (w ->> 'id')::integer from jsonb_array_elements(decision -> 'put_waits') w));
    end if;
    if decision -> 'put_undos' <> '[]' or decision -> 'drop_undos' <> '[]' or decision -> 'put_runs' <> '[]' or decision -> 'drop_runs' <> '[]' then
        perform celeriac.put_undos(held.id, decision);
    end if;
    if decision -> 'drop_tasks' <> '[]' then
        perform celeriac.drop_tasks(held, decision -> 'drop_tasks');
    end if;
    if jsonb_array_length(decision -> 'make_tasks') > 0 then
        made := celeriac.make_tasks(held, decision -> 'make_tasks');
    end if;
    if decision -> 'ask_people' <> '[]' then
        update celeriac.token t set assignee = a.assignee, duty = a.duty
          from jsonb_to_recordset(decision -> 'ask_people') a (token integer, assignee text, duty jsonb)
         where t.instance_id = held.id and t.id = a.token;
    end if;
    -- What a cancel takes away was not tried again: those incidents end with the instance.
    if decision -> 'incidents' <> '[]' or ((decision ->> 'unstuck')::boolean and decision ->> 'status' <> 'CANCELED') then
        perform celeriac.raise_model_incidents(held.id, decision -> 'incidents', moment);
    end if;
    insert into celeriac.instance_history (instance_id, at, token, token_uid, what, node, host, assignee)
    select held.id, moment, (n ->> 'token')::integer,
           coalesce((gone -> (n ->> 'token') ->> 0)::uuid,
                    (select t.uid from celeriac.token t where t.instance_id = held.id and t.id = (n ->> 'token')::integer)),
           n ->> 'what', n ->> 'node', (n ->> 'host')::integer, gone -> (n ->> 'token') ->> 1
      from jsonb_array_elements(decision -> 'notes') with ordinality n (n, place) order by place;
    if decision -> 'again' <> '[]' then
        -- A commit point: what comes after it is for a transaction of its own.
        insert into celeriac.fact (instance_id, at, kind, token_uid, payload)
        select held.id, moment, 'continued', t.uid, jsonb_build_object('hops', decision -> 'hops') from jsonb_array_elements_text(decision -> 'again') a
          join celeriac.token t on t.instance_id = held.id and t.id = a::integer;
    end if;
    update celeriac.instance i
       set number = (decision ->> 'number')::integer, status = decision ->> 'status', outcome = decision ->> 'outcome',
           ended_at = case when decision ->> 'status' in ('COMPLETED', 'FAILED_COMPENSATED', 'CANCELED') then moment end
     where i.id = held.id;
    if decision ->> 'status' in ('COMPLETED', 'FAILED_COMPENSATED', 'CANCELED') then
        perform celeriac.conclude_instance(held.id, moment);
    end if;
    return query select held.id, decision ->> 'status', made, kept, reached;
end $$;
