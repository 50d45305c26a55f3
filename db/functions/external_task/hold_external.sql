-- hold_external: an external task as the Camunda face knows it, locked: its queue row; or, when it has FAILED and its token still
-- stands on it, a row in the state FAILED that says who held it last. Refuses (not_found): one that is unknown, of a foreign type,
-- at rest, or over; without `must` nothing is answered then.
create or replace function celeriac.hold_external(task_id uuid, only_types text[], must boolean default true) returns celeriac.queue
language plpgsql volatile as $$
declare
    cold celeriac.task;
    held celeriac.queue;
begin
    loop
        select t.* into cold from celeriac.task t where t.id = hold_external.task_id;
        exit when cold.id is null or not celeriac.may_touch(cold.task_type, only_types) or cold.state not in ('OPEN', 'FAILED');
        select q.* into held from celeriac.queue q where q.task_id = cold.id for update;
        if found then
            return held;
        elsif cold.state = 'FAILED' then
            -- The row of the instance first, as everywhere: the token must not move on meanwhile.
            perform from celeriac.instance i where i.id = cold.instance_id for share;
            exit when not exists (select from celeriac.token k where k.uid = cold.token_id);
            select t.* into cold from celeriac.task t where t.id = cold.id for update;
            if cold.state = 'FAILED' then
                held.task_id := cold.id;
                held.state := 'FAILED';
                held.task_type := cold.task_type;
                held.attempts := cold.attempts;
                held.last_owner := cold.worker_id;
                held.last_principal := cold.principal;
                return held;
            end if;
        end if;
        -- It has just moved (redriven, woken, ended): look again.
    end loop;
    if not must then
        return null;
    end if;
    perform celeriac.refuse('not_found', 'there is no such task', null, jsonb_build_object('task_id', hold_external.task_id));
end $$;
