-- sees: whether a token sees variables with these names and values; inner ones hide outer ones of the same name.
create or replace function celeriac.sees(token_uid uuid, variables jsonb) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
begin
    return not exists (
        select from jsonb_each(sees.variables) c
         where c.value is distinct from (select v.value from celeriac.visible_variables(array[sees.token_uid], array[c.key]) v));
end $$;
