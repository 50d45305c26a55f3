-- let_go: SCHEDULED -> READY | BLOCKED, a canceled task that is to be undone, since the worker that was at it has stopped. False when
-- that is not who calls. Again it changes nothing.
create or replace function celeriac.let_go(task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    hot celeriac.queue;
    saga celeriac.saga;
begin
    select q.* into hot from celeriac.queue q where q.task_id = let_go.task_id and celeriac.may_touch(q.task_type, only_types) for update;
    select s.* into saga from celeriac.saga s where s.task_id = hot.task_id and s.ended_at is null;
    if saga.holder is distinct from let_go.worker_id or saga.holder_principal <> let_go.principal
       or saga.holder_token <> coalesce(let_go.fencing_token, saga.holder_token) then
        return false;
    end if;
    if hot.state = 'SCHEDULED' and hot.held_until = saga.holder_until then
        update celeriac.queue q set held_until = moment where q.task_id = hot.task_id;  -- its instance is suspended
    elsif hot.state = 'SCHEDULED' and hot.run_at = saga.holder_until then
        update celeriac.queue q
           set state = celeriac.ready_state(hot.task_type, hot.concurrency_key, hot.version), run_at = moment
         where q.task_id = hot.task_id;
        perform celeriac.ring(array[hot.task_type]);
    end if;
    return true;
end $$;
