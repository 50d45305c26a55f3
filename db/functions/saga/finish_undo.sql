-- finish_undo: LOCKED -> FAILED | CANCELED, a task whose undos have all run (or were skipped by a person).
-- Refuses: a lease that is not held; a task that is not being undone, or not all of it. The same again holds.
create or replace function celeriac.finish_undo(task_id uuid, worker_id text, fencing_token bigint)
returns setof celeriac.task_state
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    before celeriac.history;
    held celeriac.queue;
    undo celeriac.compensation;
begin
    perform celeriac.check_name(finish_undo.worker_id, 'worker_id');
    held := celeriac.try_lease(finish_undo.task_id, finish_undo.worker_id, finish_undo.fencing_token);
    if held.task_id is null then
        before := celeriac.past_write(finish_undo.task_id, 'undone', finish_undo.worker_id, finish_undo.fencing_token, session_user, null);
        if before.task_id is null then
            perform celeriac.refuse_write(finish_undo.task_id, finish_undo.worker_id, finish_undo.fencing_token, session_user, null);
        end if;
        return query select before.task_id, before.detail ->> 'state';
        return;
    end if;
    undo := celeriac.next_undo(held.task_id);
    if not held.undoing then
        perform celeriac.refuse('invalid', 'the task is not being undone', 'task_id');
    elsif undo.number is not null then
        perform celeriac.refuse('invalid', format('compensation %s, of %s, is still to be undone', undo.number, undo.name), 'task_id',
            jsonb_build_object('number', undo.number));
    end if;
    return query select held.task_id, celeriac.end_undo(held, celeriac.now());
end $$;
