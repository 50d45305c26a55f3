-- join_line: the turn of the first of `count` tasks that line up behind the last one of their fairness key.
-- Waits for nobody: while another transaction of the same key is open, its tasks and these share turns.
create or replace function celeriac.join_line(task_type text, fairness_key text, count integer, moment timestamptz)
returns timestamptz
language plpgsql volatile as $$
declare
    last_turn_at timestamptz;
    ours boolean;
begin
    select f.last_turn_at into last_turn_at from celeriac.fair_share f
     where f.task_type = join_line.task_type and f.fairness_key = join_line.fairness_key for update skip locked;
    ours := found;
    if not ours then
        select f.last_turn_at into last_turn_at from celeriac.fair_share f
         where f.task_type = join_line.task_type and f.fairness_key = join_line.fairness_key;
    end if;
    moment := greatest(last_turn_at + interval '1 second', moment);
    if ours then
        update celeriac.fair_share f set last_turn_at = moment + (count - 1) * interval '1 second'
         where f.task_type = join_line.task_type and f.fairness_key = join_line.fairness_key;
    elsif last_turn_at is null and pg_try_advisory_xact_lock(hashtextextended('celeriac.fair_share ' || task_type, 0)) then
        -- One transaction at a time brings new keys of a type, so none waits here for another's.
        insert into celeriac.fair_share (task_type, fairness_key, last_turn_at)
        values (join_line.task_type, join_line.fairness_key, moment + (count - 1) * interval '1 second') on conflict do nothing;
    end if;
    return moment;
end $$;
