-- note_chore: that a chore ran now; not more often than twice a second, and never waiting for another that notes the same.
create or replace function celeriac.note_chore(name text) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    before timestamptz;
begin
    select c.ran_at into before from celeriac.chore c where c.name = note_chore.name for update skip locked;
    if before not between moment - interval '500 milliseconds' and moment then
        update celeriac.chore c set ran_at = moment where c.name = note_chore.name;
    elsif before is null then
        insert into celeriac.chore (name, ran_at) values (note_chore.name, moment) on conflict do nothing;
    end if;
end $$;
