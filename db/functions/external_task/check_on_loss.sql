-- check_on_loss: refuses what a lost lock cannot cost.
create or replace function celeriac.check_on_loss(on_loss text) returns void
language plpgsql immutable as $$
begin
    if coalesce(on_loss not in ('free', 'retry'), false) then
        perform celeriac.refuse('invalid', 'on_loss must be free or retry', 'on_loss');
    end if;
end $$;
