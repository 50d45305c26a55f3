-- extend_leases: LOCKED -> LOCKED, many leases of one worker in one call, each judged by itself as in extend_lease: `code`
-- says why one was refused, null that it holds. A process keeps all its leases alive with one round trip.
create or replace function celeriac.extend_leases(
    items jsonb, worker_id text, principal text default null, only_types text[] default null)
returns setof celeriac.extension_answer
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    me text := coalesce(extend_leases.principal, session_user);
    answers celeriac.extension_answer[] := '{}';
    write record;
begin
    perform celeriac.check_name(extend_leases.worker_id, 'worker_id'),
            celeriac.check_items(items, array['task_id', 'fencing_token', 'lock_duration_ms'], 1000, 'items');
    -- In the order of the ids, as every batch locks: two of them wait for each other, never in a circle.
    for write in
        select w.*, p.place, celeriac.read_integer(w.item, 'lock_duration_ms', 1, 2592000000, p.place) as duration_ms
          from celeriac.read_writes(items) w cross join lateral (select format('items[%s]', w.ordinal) as place) p
         order by w.task_id, w.ordinal
    loop
        if write.duration_ms is null then
            perform celeriac.refuse('invalid', 'every item must name its lock_duration_ms', write.place || '.lock_duration_ms');
        end if;
        answers := answers || celeriac.answer_extension(write.ordinal, write.task_id, extend_leases.worker_id,
                                                        write.fencing_token, write.duration_ms, me, only_types);
    end loop;
    return query select a.* from unnest(answers) a order by a.ordinal;
end $$;
