-- signal_result: a signal as the step of its receiver holds it.
create or replace function celeriac.signal_result(sent celeriac.signal) returns jsonb
language sql stable as $$
    select jsonb_build_object('signal_id', sent.id, 'topic', sent.topic, 'key', nullif(sent.key, ''), 'payload', sent.payload,
                              'sent_at', celeriac.rfc3339(sent.sent_at))
$$;
