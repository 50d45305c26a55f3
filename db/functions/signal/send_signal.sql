-- send_signal: nothing -> a signal, and those who wait for it: WAITING -> READY
-- To one taker, who waits longest; else kept until it expires. A broadcast is for every task that waits now or begins to
-- before it expires, once each. Joins the caller's transaction: with a roll-back nothing was sent and nobody woken.
-- The same dedupe_id and payload again: the first signal. Refuses: invalid, too_large, idempotency_conflict (another payload).
create or replace function celeriac.send_signal(
    topic text, key text default null, payload jsonb default null, ttl_ms bigint default 604800000, dedupe_id text default null,
    broadcast boolean default false, principal text default null, only_types text[] default null)
returns table (signal_id uuid, created boolean, delivered integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz;
    sent celeriac.signal;
    unfinished boolean;
begin
    perform celeriac.check_name(send_signal.topic, 'topic'), celeriac.check_range(ttl_ms, 0, 3155760000000, 'ttl_ms');
    if send_signal.key is not null then
        perform celeriac.check_name(send_signal.key, 'key');
    end if;
    if send_signal.dedupe_id is not null then
        perform celeriac.check_name(send_signal.dedupe_id, 'dedupe_id');
    end if;
    sent.payload := celeriac.read_result(send_signal.payload, 'payload');
    sent.topic := send_signal.topic; sent.key := coalesce(send_signal.key, ''); sent.dedupe_id := send_signal.dedupe_id;
    sent.broadcast := coalesce(send_signal.broadcast, false); sent.only_types := send_signal.only_types;
    sent.sender := coalesce(send_signal.principal, session_user);
    perform pg_advisory_xact_lock(celeriac.signal_lock(sent.topic, sent.key));
    moment := celeriac.now();
    if sent.dedupe_id is not null then
        signal_id := celeriac.past_signal(sent, moment);
        if signal_id is not null then
            created := false; task_types := '{}';
            delivered := (select count(*) from celeriac.signal_receipt r where r.signal_id = send_signal.signal_id)
                       + (select count(s.taken_at) from celeriac.signal s where s.id = send_signal.signal_id);
            return next;
            return;
        end if;
    end if;
    sent.id := celeriac.uuid_v7(moment); sent.sent_at := moment;
    sent.expires_at := moment + ttl_ms * interval '1 millisecond';
    insert into celeriac.signal values (sent.*);
    select d.delivered, d.task_types, d.unfinished into delivered, task_types, unfinished from celeriac.deliver_signal(sent, 1000) d;
    if unfinished or celeriac.sees_the_past() then
        perform celeriac.leave_follow_up('signal', sent.id);
    end if;
    signal_id := sent.id; created := true;
    return next;
end $$;
