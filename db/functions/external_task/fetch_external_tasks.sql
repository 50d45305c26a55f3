-- fetch_external_tasks: READY -> LOCKED, for a worker of the Camunda face: a lock time for each topic, and what it chooses among the
-- tasks of a topic. Plain topics are fetched the native way; see read_topics and choose_ready for the rest.
-- `sorting` (asc, desc): by the time of creation, after the priority if that counts. `on_loss`: what it costs when the lock is lost.
-- Never fewer than asked for while free ones exist (but for the limits of a type, and 4 MiB of variables): where too few are ready,
-- locks that have run out and rests that are over are looked for at once. Refuses: invalid, forbidden.
create or replace function celeriac.fetch_external_tasks(
    worker_id text, topics jsonb, max_tasks integer, sorting text default null, on_loss text default null,
    use_priority boolean default true, principal text default null, only_types text[] default null)
returns setof celeriac.leased_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(fetch_external_tasks.principal, session_user);
    asked jsonb := celeriac.read_topics(topics);
    names text[] := array(select jsonb_object_keys(asked));
    most integer := least(max_tasks, 1000);
    choosy boolean;
    claimed celeriac.leased_task[];
    room bigint := 4194304;
begin
    perform celeriac.check_name(worker_id, 'worker_id'), celeriac.check_on_loss(on_loss),
            celeriac.check_range(max_tasks, 0, 2147483647, 'max_tasks');
    if coalesce(sorting not in ('asc', 'desc'), false) then
        perform celeriac.refuse('invalid', 'sorting must be asc or desc', 'sorting');
    elsif most = 0 or names = '{}' then
        return;
    end if;
    perform celeriac.check_fetch(worker_id, names, most, null, null, only_types);
    choosy := sorting is not null or exists (
        select from jsonb_each(asked) a
         where a.value ?| array['business_key', 'definition_ids', 'process_keys', 'version_tag', 'process_variables']);
    claimed := celeriac.claim_tasks(worker_id, names, most, null, null, room, me, asked, on_loss, choosy, sorting, use_priority);
    if cardinality(claimed) < most and not coalesce(claimed[1].more, false) and celeriac.free_due(100) then
        room := room - (select coalesce(sum(c.payload_bytes), 0) from unnest(claimed) c);
        claimed := claimed || celeriac.claim_tasks(worker_id, names, most - cardinality(claimed), null, null, room, me, asked, on_loss,
                                                   choosy, sorting, use_priority);
    end if;
    if sorting is null then
        return query select c.* from unnest(claimed) c;
        return;
    end if;
    return query
    select c.* from unnest(claimed) c
     order by case when use_priority then -c.priority end, case when sorting = 'desc' then c.task_id end desc, c.task_id;
end $$;
