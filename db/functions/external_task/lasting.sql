-- lasting: variables without those that are transient: what is kept of them.
create or replace function celeriac.lasting(variables jsonb, types jsonb) returns jsonb
language plpgsql immutable as $$
begin
    return coalesce(variables, '{}') - array(select e.key from jsonb_each(types) e where (e.value ->> 'transient')::boolean);
end $$;
