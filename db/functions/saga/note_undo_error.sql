-- note_undo_error: what the undo of a compensation said when it failed; refuses a number that is not to be undone now.
-- Undos run newest first: only the newest that is left can be tried.
create or replace function celeriac.note_undo_error(held celeriac.queue, number integer, error text) returns void
language plpgsql volatile as $$
begin
    if not held.undoing then
        perform celeriac.refuse('invalid', 'the task is not being undone', 'task_id');
    elsif note_undo_error.number is distinct from (celeriac.next_undo(held.task_id)).number then
        perform celeriac.refuse('invalid', 'only the newest compensation that is left can be undone', 'number');
    end if;
    update celeriac.compensation c set error = note_undo_error.error
     where c.task_id = held.task_id and c.number = note_undo_error.number;
end $$;
