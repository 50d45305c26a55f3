-- hold_drops: locks the open tasks that an advance no longer wants. False when it may not go on: somebody is at one of them at this
-- moment, or has ended one since the advance has looked. What was ended counts, so the advance is to look again.
create or replace function celeriac.hold_drops(instance_id uuid, token_uids uuid[], consumed bigint[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
    open_task uuid;
    hot celeriac.queue;
begin
    if exists (select from celeriac.fact f where f.instance_id = hold_drops.instance_id and f.id = any (consumed) and celeriac.stops_at_once(f)) then
        return true;  -- of an instance that was stopped at once nothing counts any more
    end if;
    for open_task in
        select t.id from celeriac.task t where t.token_id = any (token_uids) and t.state in ('OPEN', 'WAITING') order by t.id
    loop
        hot := celeriac.hold_open(open_task, false);
        if hot.task_id is null then
            return false;
        end if;
    end loop;
    return not exists (select from celeriac.fact f
                        where f.instance_id = hold_drops.instance_id and f.kind in ('completed', 'thrown') and f.token_uid = any (token_uids)
                          and f.id <> all (consumed));
end $$;
