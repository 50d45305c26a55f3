-- holder_of: the scope in which a variable of an instance is set from where a token stands (null: from the root); null when that is
-- the token itself.
create or replace function celeriac.holder_of(instance_id uuid, name text, token_uid uuid, local_only boolean) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
    at celeriac.token;
    inner_scope integer;
    place integer;
    outer_scope integer;
begin
    if holder_of.token_uid is null then
        return (select s.id from celeriac.scope s where s.instance_id = holder_of.instance_id and s.parent is null);
    end if;
    select t.* into at from celeriac.token t where t.uid = holder_of.token_uid;
    select s.id into inner_scope from celeriac.scope s where s.instance_id = at.instance_id and s.host = at.id and not s.ended;
    if at.variables ? holder_of.name then
        return null;
    elsif local_only then
        return inner_scope;
    end if;
    place := coalesce(inner_scope, at.scope);
    loop
        select s.parent into outer_scope from celeriac.scope s where s.instance_id = at.instance_id and s.id = place;
        exit when outer_scope is null or exists (
            select from celeriac.variable v where v.instance_id = at.instance_id and v.scope = place and v.name = holder_of.name);
        place := outer_scope;
    end loop;
    return place;
end $$;
