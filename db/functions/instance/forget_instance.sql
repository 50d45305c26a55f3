-- forget_instance: deletes an ended instance, which the caller has locked, and all that is its own.
create or replace function celeriac.forget_instance(instance_id uuid) returns void
language plpgsql volatile as $$
begin
    delete from celeriac.instance_history h where h.instance_id = forget_instance.instance_id;
    delete from celeriac.variable v where v.instance_id = forget_instance.instance_id;
    -- A file that another instance has as well stays.
    delete from celeriac.file f using celeriac.file_use u
     where u.instance_id = forget_instance.instance_id and f.id = u.file_id
       and not exists (select from celeriac.file_use o where o.file_id = f.id and o.instance_id <> forget_instance.instance_id);
    delete from celeriac.file_use u where u.instance_id = forget_instance.instance_id;
    delete from celeriac.scope s where s.instance_id = forget_instance.instance_id;
    delete from celeriac.undo u where u.instance_id = forget_instance.instance_id;
    delete from celeriac.fact f where f.instance_id = forget_instance.instance_id;
    delete from celeriac.incident n where n.instance_id = forget_instance.instance_id;
    delete from celeriac.instance i where i.id = forget_instance.instance_id;
end $$;
