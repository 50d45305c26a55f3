-- oldest_snapshot_age_ms: how long the oldest transaction that keeps vacuum from its work has been open, in ms; null: none.
-- With the rights of the schema's owner, who sees other users' sessions if a member of pg_read_all_stats.
create or replace function celeriac.oldest_snapshot_age_ms() returns bigint
language sql volatile security definer set search_path = celeriac, pg_temp as $$
    select (extract(epoch from max(clock_timestamp() - a.xact_start)) * 1000)::bigint
      from pg_stat_activity a where a.backend_xmin is not null and a.pid <> pg_backend_pid()
$$;
