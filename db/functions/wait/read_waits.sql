-- read_waits: what suspend_task shall wait for, read at the door, in the order of the places; no two at the same place.
create or replace function celeriac.read_waits(waits jsonb, task_id uuid, moment timestamptz) returns celeriac.asked_wait[]
language plpgsql volatile as $$
declare
    read celeriac.asked_wait[];
    twice record;
begin
    perform celeriac.check_items(waits, array['branch', 'ordinal', 'name', 'kind', 'topic', 'key', 'timeout_ms', 'delay_ms', 'until',
                                              'child_id'], 10000, 'waits');
    select array_agg(celeriac.read_wait(i.value, read_waits.task_id, format('waits[%s]', i.ordinality - 1), moment)) into read
      from jsonb_array_elements(waits) with ordinality i;
    select a.branch, a.ordinal into twice from unnest(read) a group by a.branch, a.ordinal having count(*) > 1 limit 1;
    if found then
        perform celeriac.refuse('invalid', format('waits names %s twice', celeriac.place_name(twice.branch, twice.ordinal)), 'waits');
    end if;
    if (select count(distinct (a.topic, a.key)) from unnest(read) a where a.kind = 'signal') > 1000 then
        perform celeriac.refuse('invalid', 'waits must not name more than 1000 different signals', 'waits');
    end if;
    return array(select a from unnest(read) a order by a.branch collate "C", a.ordinal);
end $$;
