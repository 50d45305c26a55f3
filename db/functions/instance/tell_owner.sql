-- tell_owner: a fact for the instance that a task belongs to, unless its token has moved on or is gone.
create or replace function celeriac.tell_owner(instance_id uuid, token_uid uuid, kind text, payload jsonb) returns void
language plpgsql volatile as $$
begin
    if exists (select from celeriac.token t where t.uid = tell_owner.token_uid) then
        perform celeriac.tell_instance(tell_owner.instance_id, tell_owner.kind, tell_owner.token_uid, tell_owner.payload);
    end if;
end $$;
