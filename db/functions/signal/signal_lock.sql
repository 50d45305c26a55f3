-- signal_lock: the advisory lock of a topic and key: who sends to it and who begins to wait for it take turns.
create or replace function celeriac.signal_lock(topic text, key text) returns bigint
language sql immutable as $$ select hashtextextended('celeriac.signal ' || topic || E'\n' || key, 0) $$;
