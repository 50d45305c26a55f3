-- create_api_key: nothing -> a key. Only the hash (SHA-256, 32 bytes) is stored; the key itself is shown once by its maker.
create or replace function celeriac.create_api_key(
    name text, key_hash bytea, principal_name text, verbs text[], task_types text[], expires_at timestamptz default null,
    principal text default null, only_types text[] default null)
returns table (key_id uuid, created_at timestamptz)
language plpgsql security definer set search_path = celeriac, pg_temp as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_name(name, 'name'), celeriac.check_name(principal_name, 'principal');
    perform celeriac.check_name(t, 'task_types') from unnest(create_api_key.task_types) t;
    if octet_length(create_api_key.key_hash) is distinct from 32 then
        perform celeriac.refuse('invalid', 'key_hash must be a SHA-256 of 32 bytes', 'key_hash');
    elsif coalesce(cardinality(create_api_key.verbs), 0) = 0
       or not create_api_key.verbs <@ array['work', 'enqueue', 'read', 'manage', 'admin'] then
        perform celeriac.refuse('invalid', 'verbs must be some of work, enqueue, read, manage, admin', 'verbs');
    elsif create_api_key.task_types is null then
        perform celeriac.refuse('invalid', 'task_types must be a list of patterns', 'task_types');
    elsif create_api_key.expires_at <= moment then
        perform celeriac.refuse('invalid', 'expires_at lies in the past', 'expires_at');
    elsif create_api_key.expires_at >= '3000-01-01 00:00:00+00' then
        -- Not every reader of a list can hold any time that Postgres can.
        perform celeriac.refuse('invalid', 'expires_at must lie before the year 3000', 'expires_at');
    end if;
    return query
    insert into celeriac.api_key as k (id, name, principal, key_hash, verbs, task_types, created_at, expires_at)
    values (celeriac.uuid_v7(moment), create_api_key.name, create_api_key.principal_name, create_api_key.key_hash,
            create_api_key.verbs, create_api_key.task_types, moment, create_api_key.expires_at)
    returning k.id, k.created_at;
end $$;
