-- skip_undo: REGISTERED -> SKIPPED, one compensation, because a person said so; its last error stays with it.
create or replace function celeriac.skip_undo(task_id uuid, number integer, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    update celeriac.compensation c set state = 'SKIPPED', ended_at = moment
     where c.task_id = skip_undo.task_id and c.number = skip_undo.number and c.state = 'REGISTERED';
end $$;
