-- fail_for_good: LOCKED -> FAILED when there is nothing to undo, else -> READY, to be undone; a task that is being undone, and
-- whose undo fails for good, -> WAITING for a person. Answers with that state. `undo`: whether its instance may roll back for it.
create or replace function celeriac.fail_for_good(held celeriac.queue, error text, moment timestamptz, undo boolean default true) returns text
language plpgsql volatile as $$
declare
    next celeriac.compensation := celeriac.next_undo(held.task_id);
begin
    if held.undoing and next.number is null then
        -- All is undone, and only the worker that would have said so failed.
        return celeriac.end_undo(held, moment);
    elsif held.undoing then
        perform celeriac.note_undo_error(held, next.number, fail_for_good.error),
                celeriac.open_incident(held, 'undo_failed', 'undo', next.number, next.name, fail_for_good.error, '{}', null, moment);
        return 'WAITING';
    elsif next.number is not null then
        perform celeriac.begin_undo(held, 'failed', fail_for_good.error, moment);
        return 'READY';
    end if;
    perform celeriac.bury_task(held, fail_for_good.error, moment, undo);
    return 'FAILED';
end $$;
