"""A deployment is deleted with all that came of it, or stays whole; an instance that is being started is not lost."""

from __future__ import annotations

from typing import Any

import pytest

from db import call
from db.errors import NotFound
from tests.app.engine.conftest import Desk, flow, model, task
from tests.db.clerk import Clerk
from tests.db.overlap import overlap

ONE = model('<startEvent id="s"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e"))


def delete(clerk: Clerk, deployed: Any, **more: Any) -> Any:
    return clerk.one("delete_deployment", deployment_id=deployed.deployment_id, **more)


def test_nothing_is_left_of_a_deployment_and_its_instances(desk: Desk) -> None:
    clerk = Clerk(desk.conn)
    (deployed,) = desk.deploy(ONE)
    instances = [desk.start() for _ in range(3)]
    desk.complete("a")
    assert not delete(clerk, deployed).deleted
    assert desk.ready() == ["a", "a"]
    while not (step := delete(clerk, deployed, cascade=True, max_instances=2)).deleted:
        assert set(map(str, step.stopped)) <= set(instances)
        desk.advance(*map(str, step.stopped))
    assert desk.ready() == []
    left = (
        "deployment",
        "resource",
        "definition",
        "instance",
        "token",
        "scope",
        "variable",
        "instance_history",
        "fact",
    )
    assert [clerk.scalar(f"select count(*) from celeriac.{table}") for table in left] == [0] * len(left)
    with pytest.raises(NotFound):
        delete(clerk, deployed)


@pytest.mark.parametrize("keep", [True, False])
def test_whoever_is_starting_an_instance_is_waited_for(desk: Desk, database_url: str, keep: bool) -> None:
    (deployed,) = desk.deploy(ONE)
    started, gone = overlap(
        database_url,
        lambda clerk: clerk.one("start_instance", definition_id=deployed.definition_id),
        lambda clerk: delete(clerk, deployed),
        keep=keep,
    )
    assert started.created
    assert gone.deleted is not keep


def test_whoever_comes_after_a_deletion_finds_no_definition(desk: Desk, database_url: str) -> None:
    (deployed,) = desk.deploy(ONE)
    gone, late = overlap(
        database_url,
        lambda clerk: delete(clerk, deployed),
        lambda clerk: clerk.one("start_instance", definition_id=deployed.definition_id),
    )
    assert gone.deleted
    assert isinstance(late, NotFound)


def test_two_deployments_of_one_name_do_not_both_take_the_other_for_old(desk: Desk, database_url: str) -> None:
    desk.deploy(ONE)
    prepared = {
        "name": "filtered",
        "resources": call.Json('[{"name": "a.txt", "content": "YQ=="}]'),
        "definitions": call.Json("[]"),
        "duplicates": "files",
    }

    def deploy(clerk: Clerk) -> Any:
        return clerk.one("deploy_models", **prepared)

    first, second = overlap(database_url, deploy, deploy)
    assert (first.created, second.created) == (True, False)
    assert first.deployment_id == second.deployment_id
    assert first.definition_id is None
