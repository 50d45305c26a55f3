-- complete_tasks: LOCKED -> COMPLETED
-- Each item is judged by itself: `code` says why one was refused, null that it holds. The same completion again (same
-- worker and token, same result) holds and changes nothing; another result is refused.
create or replace function celeriac.complete_tasks(
    items jsonb, worker_id text, principal text default null, only_types text[] default null)
returns table (ordinal integer, task_id uuid, state text, code text, message text, instance_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    me text := coalesce(complete_tasks.principal, session_user);
    answers celeriac.write_answer[] := '{}';
    write record;
begin
    perform celeriac.check_name(complete_tasks.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'variables'], 1000, 'items');
    -- In the order of the ids, as every batch locks: two of them wait for each other, never in a circle.
    for write in select w.* from celeriac.read_writes(items) w order by w.task_id, w.ordinal loop
        answers := answers || celeriac.end_completed(
            write.ordinal, write.task_id, complete_tasks.worker_id, write.fencing_token,
            celeriac.read_variables(write.item, format('items[%s]', write.ordinal)), me, only_types);
    end loop;
    return query select a.ordinal, a.task_id, a.state, a.code, a.message, a.instance_id from unnest(answers) a order by a.ordinal;
end $$;
