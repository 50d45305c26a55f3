-- hold_interruptions: the events that could take these tokens away, their own and those of what they are inside of, held until
-- the transaction ends: nobody makes one of them happen meanwhile, and what happened just before is seen by the next statement.
-- Before any row of a queue, and in the order of their keys: see docs/decisions/0054.
create or replace function celeriac.hold_interruptions(token_uids uuid[]) returns void
language plpgsql volatile as $$
begin
    -- Most instances wait for nothing; to look at that is half the price.
    if not exists (select from celeriac.token k join celeriac.event_wait w on w.instance_id = k.instance_id where k.uid = any (token_uids)) then
        return;
    end if;
    perform from celeriac.event_wait w
      where (w.instance_id, w.token) in (
          with recursive place as (
              select k.instance_id, k.id, k.scope from celeriac.token k where k.uid = any (token_uids)
               union
              select h.instance_id, h.id, h.scope from place p
                join celeriac.scope s on s.instance_id = p.instance_id and s.id = p.scope
                join celeriac.token h on h.instance_id = s.instance_id and h.id = s.host)
          select p.instance_id, p.id from place p)
      order by w.instance_id, w.id for share;
end $$;
