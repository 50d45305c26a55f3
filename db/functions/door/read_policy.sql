-- read_policy: what a task asks to differ in from its type; null when nothing.
create or replace function celeriac.read_policy(item jsonb, place text) returns jsonb
language plpgsql immutable as $$
declare
    policy jsonb := celeriac.read_object(item, 'policy', place);
    inside text := place || '.policy';
    known constant text[] := array['lease_ms', 'backoff_first_ms', 'backoff_factor', 'backoff_cap_ms', 'backoff_jitter', 'expirations'];
begin
    if policy is null or policy = '{}' then
        return null;
    end if;
    if policy - known <> '{}' then
        perform celeriac.refuse('invalid', inside || ' has an unknown field',
            inside || '.' || (select left(k, 100) from jsonb_object_keys(policy - known) k limit 1));
    end if;
    perform celeriac.read_integer(policy, 'lease_ms', 1, 2592000000, inside),
            celeriac.read_integer(policy, 'backoff_first_ms', 0, 3155760000000, inside),
            celeriac.read_integer(policy, 'backoff_cap_ms', 0, 3155760000000, inside),
            celeriac.read_integer(policy, 'expirations', 0, 2147483647, inside);
    if coalesce(jsonb_typeof(policy -> 'backoff_factor') <> 'number' or (policy ->> 'backoff_factor')::numeric not between 1 and 100, false) then
        perform celeriac.refuse('invalid', inside || '.backoff_factor must be a number between 1 and 100', inside || '.backoff_factor');
    end if;
    if coalesce(jsonb_typeof(policy -> 'backoff_jitter') <> 'number' or (policy ->> 'backoff_jitter')::numeric not between 0 and 1, false) then
        perform celeriac.refuse('invalid', inside || '.backoff_jitter must be a number between 0 and 1', inside || '.backoff_jitter');
    end if;
    return policy;
end $$;
