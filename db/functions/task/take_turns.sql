-- take_turns: spreads the tasks of one fairness key, one second apart, behind the last one of that key, so that a key with
-- thousands of tasks lines up among the others instead of before them. A turn only orders; nothing waits for it.
-- A turn lies an hour ahead at most: what a key has had in the past is forgotten by then.
create or replace function celeriac.take_turns(asked celeriac.asked_task[], kept integer[], moment timestamptz)
returns celeriac.asked_task[]
language plpgsql volatile as $$
declare
    spread celeriac.asked_task[];
begin
    if not exists (select from unnest(asked) a where a.fairness_key is not null) then
        return asked;
    end if;
    with keyed as (
        select a.ordinal, a.task_type, a.fairness_key,
               row_number() over (partition by a.task_type, a.fairness_key order by a.ordinal) as place
          from unnest(asked) a
         where a.fairness_key is not null and (a.idempotency_key is null or a.ordinal = any (kept))
    ), line as (
        insert into celeriac.fair_share as f (task_type, fairness_key, last_turn_at)
        select k.task_type, k.fairness_key, moment + (count(*) - 1) * interval '1 second' from keyed k
         group by k.task_type, k.fairness_key order by k.task_type, k.fairness_key
            on conflict (task_type, fairness_key) do update
           set last_turn_at = greatest(f.last_turn_at + interval '1 second', moment) + (excluded.last_turn_at - moment)
        returning f.task_type, f.fairness_key, f.last_turn_at
    ), turn as (
        select k.ordinal, least(l.last_turn_at - (max(k.place) over (partition by k.task_type, k.fairness_key) - k.place)
                                * interval '1 second', moment + interval '1 hour') as turn_at
          from keyed k join line l using (task_type, fairness_key)
    )
    select array_agg(row(a.ordinal, a.task_id, a.task_type, a.version, a.priority, a.retries, a.run_at,
               greatest(coalesce(t.turn_at, a.turn_at), a.run_at), a.business_key, a.idempotency_key, a.fairness_key, a.token_id,
               a.instance_id, a.variables, a.policy)::celeriac.asked_task order by a.ordinal)
      into spread
      from unnest(asked) a left join turn t on t.ordinal = a.ordinal;
    return spread;
end $$;
