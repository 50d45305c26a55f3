-- past_signal: the signal that was sent before with this dedupe_id and is kept still, if it is the same; null when there is none.
create or replace function celeriac.past_signal(sent celeriac.signal, moment timestamptz) returns uuid
language plpgsql volatile as $$
declare
    past celeriac.signal;
begin
    select s.* into past from celeriac.signal s
     where s.topic = sent.topic and s.key = sent.key and s.dedupe_id = sent.dedupe_id;
    if past.id is null then
        return null;
    elsif past.expires_at <= moment then
        delete from celeriac.signal s where s.id = past.id;
        return null;
    elsif (past.payload, past.broadcast) is distinct from (sent.payload, sent.broadcast) then
        perform celeriac.refuse('idempotency_conflict', format('dedupe_id was used before with another payload, by signal %s', past.id),
                                'dedupe_id', jsonb_build_object('signal_id', past.id));
    end if;
    return past.id;
end $$;
