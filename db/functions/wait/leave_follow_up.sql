-- leave_follow_up: what must still follow from a transition is left for fire_timers, in the same transaction.
create or replace function celeriac.leave_follow_up(
    kind text, subject uuid, reason text default null, compensate boolean default null, principal text default null)
returns void language plpgsql volatile as $$
begin
    insert into celeriac.follow_up (kind, subject, reason, compensate, principal)
    values (leave_follow_up.kind, leave_follow_up.subject, leave_follow_up.reason, leave_follow_up.compensate,
            leave_follow_up.principal);
end $$;
