-- read_compensations: what a task has registered to be undone, newest first, for the worker that holds it.
create or replace function celeriac.read_compensations(task_id uuid, worker_id text, fencing_token bigint)
returns table (number integer, branch text, ordinal integer, name text, state text, error text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    perform celeriac.check_name(read_compensations.worker_id, 'worker_id'),
            celeriac.see_lease(read_compensations.task_id, read_compensations.worker_id, read_compensations.fencing_token);
    return query
    select c.number, c.branch, c.ordinal, c.name, c.state, c.error
      from celeriac.compensation c where c.task_id = read_compensations.task_id order by c.number desc;
end $$;
