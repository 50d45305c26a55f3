-- find_api_key: the key with this hash, whether it still holds or not; no row when there is none.
create or replace function celeriac.find_api_key(key_hash bytea)
returns table (key_id uuid, name text, principal text, verbs text[], task_types text[], expires_at timestamptz,
               revoked_at timestamptz, holds boolean)
language sql stable security definer set search_path = celeriac, pg_temp as $$
    select k.id, k.name, k.principal, k.verbs, k.task_types, k.expires_at, k.revoked_at,
           k.revoked_at is null and coalesce(k.expires_at > celeriac.now(), true)
      from celeriac.api_key k where k.key_hash = find_api_key.key_hash
$$;
