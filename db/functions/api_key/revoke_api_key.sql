-- revoke_api_key: a key -> a revoked key, for ever; revoking again answers the same.
create or replace function celeriac.revoke_api_key(key_id uuid, principal text default null, only_types text[] default null)
returns setof celeriac.revoked_key
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
begin
    return query
    update celeriac.api_key k set revoked_at = coalesce(k.revoked_at, celeriac.now())
     where k.id = revoke_api_key.key_id
    returning k.id, k.revoked_at;
    if not found then
        perform celeriac.refuse('not_found', 'there is no such key');
    end if;
end $$;
