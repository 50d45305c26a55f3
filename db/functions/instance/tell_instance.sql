-- tell_instance: a fact for the instance that a task or a wait belongs to. Locks nothing: whoever advances finds it.
create or replace function celeriac.tell_instance(
    instance_id uuid, kind text, token_uid uuid default null, payload jsonb default '{}', wait_id integer default null)
returns void language plpgsql volatile as $$
begin
    insert into celeriac.fact (instance_id, at, kind, token_uid, wait_id, payload)
    values (tell_instance.instance_id, celeriac.now(), tell_instance.kind, tell_instance.token_uid, tell_instance.wait_id,
            tell_instance.payload);
end $$;
