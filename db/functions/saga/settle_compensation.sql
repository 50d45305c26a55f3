-- settle_compensation: REGISTERED -> DONE, with its step in the branch `undo`; or, with an error, REGISTERED still: to be tried
-- again. Joins the caller's transaction, so an undo that only writes here is one commit with the proof that it was made.
-- Refuses: a lease that is not held; a task that is not being undone; any but the newest that is left. DONE again holds.
create or replace function celeriac.settle_compensation(
    task_id uuid, worker_id text, fencing_token bigint, number integer, error text default null)
returns table (state text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    held celeriac.queue;
    there celeriac.compensation;
begin
    perform celeriac.check_name(settle_compensation.worker_id, 'worker_id');
    held := celeriac.hold_lease(settle_compensation.task_id, settle_compensation.worker_id, settle_compensation.fencing_token);
    select c.* into there from celeriac.compensation c
     where c.task_id = held.task_id and c.number = settle_compensation.number;
    if there.state is distinct from 'DONE' or settle_compensation.error is not null then
        perform celeriac.note_undo_error(held, settle_compensation.number, celeriac.cut_text(settle_compensation.error, 8192));
    end if;
    state := case when settle_compensation.error is null then 'DONE' else 'REGISTERED' end;
    if state = 'DONE' and there.state = 'REGISTERED' then
        update celeriac.compensation c set state = 'DONE', ended_at = moment
         where c.task_id = held.task_id and c.number = there.number;
        perform celeriac.write_step(held.task_id, 'undo', there.number, 'step', there.name, null, null, held.fencing_token, moment);
    end if;
    return next;
end $$;
