-- make_tasks: nothing -> READY, the work that tokens of an instance ask for, each with its token's id; the types of what was made.
-- What cannot be a task is an incident of its token: refused, it would keep the whole instance from being advanced.
-- `again`: a task of the token that has failed for good is redriven instead, so that its timeline goes on; one that somebody has
-- redriven meanwhile is what was asked for.
create or replace function celeriac.make_tasks(held celeriac.instance, wanted jsonb) returns text[]
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    one record;
    failed uuid;
    fault text;
    faults jsonb := '[]';
    fresh celeriac.asked_task[] := '{}';
    types text[] := '{}';
begin
    for one in
        select w.value as item, w.value ->> 'task_type' as task_type, w.ordinality::integer as place, t.uid, t.id, t.node, k.retries
          from jsonb_array_elements(wanted) with ordinality w
          join celeriac.token t on t.instance_id = held.id and t.id = (w.value ->> 'token')::integer
          left join celeriac.task_type k on k.name = w.value ->> 'task_type'
         order by w.ordinality
    loop
        failed := null;
        fault := celeriac.task_fault(one.item);
        if fault is not null then
            update celeriac.token t set stuck = true where t.uid = one.uid;
            faults := faults || jsonb_build_object('token', one.id, 'node', one.node, 'kind', 'model', 'message', fault);
            continue;
        end if;
        if (one.item ->> 'again')::boolean then
            continue when exists (select from celeriac.task t where t.token_id = one.uid and t.state in ('OPEN', 'WAITING'));
            select t.id into failed from celeriac.task t where t.token_id = one.uid and t.state = 'FAILED' order by t.id desc limit 1;
        end if;
        if failed is not null then
            perform celeriac.redrive_task(failed, null, held.principal);
        else
            fresh := fresh || row(
                cardinality(fresh), celeriac.uuid_v7(moment + one.place * interval '1 microsecond'), one.task_type, 1,
                coalesce((one.item ->> 'priority')::integer, 0),
                coalesce((one.item ->> 'retries')::integer, one.retries, 3), moment, moment, held.business_key, null, null, one.uid,
                held.id, one.item -> 'variables', celeriac.read_policy(one.item, 'task'), null, 'READY')::celeriac.asked_task;
        end if;
        types := types || one.task_type;
    end loop;
    if fresh <> '{}' then
        perform celeriac.insert_tasks(fresh, '{}', moment);
    end if;
    if faults <> '[]' then
        perform celeriac.raise_model_incidents(held.id, faults, moment);
    end if;
    return types;
end $$;
