-- sees_the_past: whether the caller's transaction goes by an old snapshot (it is not READ COMMITTED): then it does not see who has
-- begun to wait since, and somebody else must look again.
create or replace function celeriac.sees_the_past() returns boolean
language sql stable as $$ select current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') $$;
