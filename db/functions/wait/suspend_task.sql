-- suspend_task: LOCKED -> WAITING until one of `waits` has come; or, when some have come already, nothing but their record:
-- those are answered with state SATISFIED, and the task stays LOCKED. A repeat (the answer was lost) changes nothing.
-- Refuses: a lease that is not held; a place where another call is recorded.
create or replace function celeriac.suspend_task(task_id uuid, worker_id text, fencing_token bigint, waits jsonb)
returns setof celeriac.met_wait
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    asked celeriac.asked_wait[];
    met celeriac.met_wait[];
    held celeriac.queue;
    busy uuid[];
begin
    perform celeriac.check_name(suspend_task.worker_id, 'worker_id');
    asked := celeriac.read_waits(waits, suspend_task.task_id, moment);
    if not exists (select from celeriac.waiting w
                    where w.task_id = suspend_task.task_id and w.fencing_token = suspend_task.fencing_token) then
        held := celeriac.hold_onward(suspend_task.task_id, suspend_task.worker_id, suspend_task.fencing_token);
        busy := celeriac.hold_awaited(asked);
        moment := celeriac.now();
        asked := celeriac.recall_waits(asked, held.task_id);
        met := celeriac.meet_waits(asked, held, moment);
        perform celeriac.keep_waits(asked, held, cardinality(met) = 0, moment);
        if cardinality(met) > 0 then
            return query select m.* from unnest(met) m;
            return;
        end if;
        perform celeriac.lay_to_rest(held, moment),
                (select count(celeriac.leave_follow_up('child', b)) from unnest(busy) b);
    end if;
    return query select '', 0, '', '', 'WAITING', null::jsonb, null::text;
end $$;
