-- work_again: the failed work of a token is open again under its old task: its incident is resolved, and its instance told.
create or replace function celeriac.work_again(instance_id uuid, token_uid uuid, principal text) returns void
language plpgsql volatile as $$
begin
    update celeriac.incident i
       set resolved_at = celeriac.now(), resolution = 'retry', resolved_by = work_again.principal
     where i.instance_id = work_again.instance_id and i.token_uid = work_again.token_uid and i.kind = 'failed' and i.resolved_at is null;
    perform celeriac.tell_owner(work_again.instance_id, work_again.token_uid, 'continued', '{"open": true}');
end $$;
