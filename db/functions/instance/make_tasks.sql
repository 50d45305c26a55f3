-- make_tasks: enqueues the work that tokens of an instance ask for, each with its token's id; the types of what was made.
-- `again`: a task of the token that has failed for good is redriven instead, so that its timeline goes on.
create or replace function celeriac.make_tasks(held celeriac.instance, wanted jsonb) returns text[]
language plpgsql volatile as $$
declare
    one record;
    uid uuid;
    failed uuid;
    fresh jsonb := '[]';
    types text[] := '{}';
begin
    for one in select w.value as item, (w.value ->> 'token')::integer as token, w.value ->> 'task_type' as task_type
                 from jsonb_array_elements(wanted) with ordinality w order by w.ordinality loop
        select t.uid into uid from celeriac.token t where t.instance_id = held.id and t.id = one.token;
        failed := null;
        if (one.item ->> 'again')::boolean then
            select t.id into failed from celeriac.task t where t.token_id = uid and t.state = 'FAILED' order by t.id desc limit 1;
        end if;
        if failed is not null then
            perform celeriac.redrive_task(failed, null, held.principal);
        else
            fresh := fresh || (one.item - 'token' - 'again' || jsonb_build_object(
                'token_id', uid, 'instance_id', held.id, 'business_key', held.business_key));
        end if;
        types := types || one.task_type;
    end loop;
    if fresh <> '[]' then
        perform celeriac.enqueue_tasks(fresh, held.principal);
    end if;
    return types;
end $$;
