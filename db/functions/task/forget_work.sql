-- forget_work: what purged tasks have done and were asked for by. Children that are there still only lose their parent.
create or replace function celeriac.forget_work(purged uuid[]) returns void
language plpgsql volatile as $$
begin
    -- Each by an index on the task; most tasks have nothing in any of these.
    delete from celeriac.step s where s.task_id = any (purged);
    delete from celeriac.operation o where o.task_id = any (purged);
    delete from celeriac.compensation c where c.task_id = any (purged);
    delete from celeriac.saga s where s.task_id = any (purged);
    -- That of an instance is about its token, which may stand there still.
    delete from celeriac.incident i where i.task_id = any (purged) and i.instance_id is null;
    delete from celeriac.wait w where w.task_id = any (purged);
    delete from celeriac.child c where c.task_id = any (purged);
    delete from celeriac.child c where c.parent_id = any (purged);
end $$;
