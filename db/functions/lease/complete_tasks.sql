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
    writes celeriac.task_write[];
    write celeriac.task_write;
    of_processes uuid[];
    interrupted uuid[] := '{}';
begin
    perform celeriac.check_name(complete_tasks.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'variables'], 1000, 'items');
    select array_agg(row(w.ordinal, w.task_id, w.fencing_token, w.item)::celeriac.task_write order by w.task_id, w.ordinal),
           array_agg(w.task_id) filter (where (select t.token_id from celeriac.task t where t.id = w.task_id) is not null)
      into writes, of_processes
      from celeriac.read_writes(items) w;
    if of_processes is not null then
        interrupted := celeriac.interrupted(of_processes);
    end if;
    -- In the order of the ids, as every batch locks: two of them wait for each other, never in a circle.
    foreach write in array coalesce(writes, '{}') loop
        answers := answers || celeriac.end_completed(
            write.ordinal, write.task_id, complete_tasks.worker_id, write.fencing_token,
            celeriac.read_variables(write.item, format('items[%s]', write.ordinal)), me, only_types, write.task_id = any (interrupted));
    end loop;
    return query select a.ordinal, a.task_id, a.state, a.code, a.message, a.instance_id from unnest(answers) a order by a.ordinal;
end $$;
