-- describe_external_tasks: those of these tasks that there are, as the Camunda face shows them, with what went wrong last. That is in
-- the timeline, and is looked up only for tasks that may have failed before. Details can be 1 MiB each: a list goes without them.
create or replace function celeriac.describe_external_tasks(task_ids uuid[], with_details boolean default true)
returns table (id uuid, topic text, worker_id text, lock_expires_at timestamptz, retries integer, retries_told boolean, priority integer,
               created_at timestamptz, business_key text, suspended boolean, token_id uuid, instance_id uuid, definition_id uuid,
               process_key text, process_version integer, version_tag text, node text, topics text[], task_type text, attempt integer,
               state text, error_message text, error_details text)
language plpgsql stable security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    return query
    select e.*, left(f.error, 666), case when with_details then f.details end
      from celeriac.external_tasks e
      left join lateral (select h.detail ->> 'error' as error, h.detail ->> 'details' as details from celeriac.history h
                          where h.task_id = e.id and h.kind = 'failed' order by h.at desc limit 1) f
        on e.attempt > 1 or e.retries_told or (e.attempt > 0 and e.state <> 'LOCKED')
     where e.id = any (task_ids);
end $$;
