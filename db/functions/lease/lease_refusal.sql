-- lease_refusal: why a worker's write found no row to change. Asked only after a guarded statement changed nothing.
-- A task of a type that the caller may not touch looks like one that never was. Stale writes are logged and counted.
create or replace function celeriac.lease_refusal(
    task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[])
returns table (code text, message text)
language plpgsql volatile as $$
declare
    cold record;
    hot record;
begin
    select t.state, t.task_type, t.token_id into cold from celeriac.task t where t.id = lease_refusal.task_id;
    if not found or not celeriac.may_touch(cold.task_type, only_types) then
        return query select 'not_found', 'there is no such task';
        return;
    end if;
    select q.* into hot from celeriac.queue q where q.task_id = lease_refusal.task_id;
    if cold.state = 'CANCELED' then
        code := 'canceled'; message := 'the task has been canceled';
    elsif cold.state = 'OPEN' and cold.token_id is not null and not coalesce(hot.undoing, false) and celeriac.is_left(cold.token_id) then
        code := 'canceled'; message := 'the process no longer wants it';
    elsif cold.state in ('COMPLETED', 'FAILED') then
        code := 'already_ended'; message := 'the task has ended as ' || cold.state;
    elsif exists (select from celeriac.saga s
                   where s.task_id = lease_refusal.task_id and s.ended_at is null
                     and s.holder = lease_refusal.worker_id and s.holder_token = lease_refusal.fencing_token) then
        code := 'canceled'; message := 'the task has been canceled, and what it has done is to be undone';
    elsif hot.state is distinct from 'LOCKED' then
        code := 'lease_lost'; message := 'the lease was lost and nobody holds the task now';
    elsif hot.fencing_token <> lease_refusal.fencing_token then
        code := 'stale_token'; message := 'the fencing token is stale: the task has been handed over since';
    elsif hot.lease_owner <> lease_refusal.worker_id or hot.lease_principal <> lease_refusal.principal then
        code := 'lease_lost'; message := 'the lease belongs to another worker';
    elsif hot.lease_expires_at > celeriac.now() then
        -- A write without a token came first; this very worker was handed the task only since.
        code := 'lease_lost'; message := 'nobody held the task when this write came';
    else
        code := 'lease_expired'; message := 'the lease has expired';
    end if;
    perform nextval('celeriac.refused_write');
    raise log 'celeriac refused a stale write of % on task % with token %: %', worker_id, task_id, fencing_token, code;
    return next;
end $$;
