"""The two distributions as users get them, built from the files that the image builder gets."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.tree import ROOT, copy_what_the_image_builder_gets, files


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Distribution name to wheel."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    copy_what_the_image_builder_gets(source)
    for folder in (source / "sdk", source):
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return {wheel.name.split("-")[0]: wheel for wheel in target.glob("*.whl")}


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def top_level_names(wheel: Path) -> set[str]:
    return {name.split("/")[0] for name in names_in(wheel) if ".dist-info/" not in name}


def unpack(wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run_with(packages: Path, script: str) -> str:
    """Run a script that finds our packages in ``packages`` before those of the source tree."""
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(packages)},
        cwd=packages,
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip()


def test_the_sdk_brings_no_other_top_level_name_than_celeriac(wheels: dict[str, Path]) -> None:
    assert top_level_names(wheels["celeriac"]) == {"celeriac"}


def test_the_server_brings_its_three_packages(wheels: dict[str, Path]) -> None:
    assert top_level_names(wheels["celeriac_server"]) == {"app", "db", "workers"}


@pytest.mark.parametrize("distribution", ["celeriac", "celeriac_server"])
def test_a_wheel_carries_the_licence(distribution: str, wheels: dict[str, Path]) -> None:
    licences = [name for name in names_in(wheels[distribution]) if name.endswith("licenses/LICENSE")]
    assert len(licences) == 1


def test_every_sql_file_and_every_migration_is_in_the_server_wheel(wheels: dict[str, Path]) -> None:
    sources = [path for pattern in ("*.sql", "*.py") for path in files(ROOT / "db", pattern)]
    wanted = {path.relative_to(ROOT).as_posix() for path in sources}
    assert wanted <= set(names_in(wheels["celeriac_server"]))


def test_the_sdk_alone_can_be_imported(wheels: dict[str, Path], tmp_path: Path) -> None:
    packages = unpack(wheels["celeriac"], tmp_path)
    # What a user without extras has: httpx, and none of the packages that only extras or the server bring.
    script = """
import sys
sys.modules.update(dict.fromkeys(["app", "db", "workers", "sqlalchemy", "psycopg", "redis", "celery", "pydantic"]))
import celeriac
for name in celeriac.__all__: getattr(celeriac, name)
print(celeriac.__file__)
"""
    assert run_with(packages, script).startswith(str(packages))


def test_the_server_wheel_can_migrate_an_empty_database(
    wheels: dict[str, Path], empty_database_url: str, tmp_path: Path
) -> None:
    packages = unpack(wheels["celeriac_server"], tmp_path)
    script = f"import db.migrate; db.migrate.migrate({empty_database_url!r}); print(db.migrate.__file__)"
    assert run_with(packages, script).startswith(str(packages))


def test_the_pytest_plugin_of_the_sdk_harms_no_project_that_has_no_driver(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    """pytest imports it wherever the SDK is installed, also for its HTTP client alone."""
    packages = unpack(wheels["celeriac"], tmp_path)
    [entry_points] = packages.glob("celeriac-*.dist-info/entry_points.txt")
    assert "celeriac.pytest_plugin" in entry_points.read_text()
    script = """
import sys
sys.modules.update(dict.fromkeys(["app", "db", "workers", "sqlalchemy", "psycopg", "redis", "celery", "pydantic"]))
import celeriac.pytest_plugin
print(celeriac.pytest_plugin.__file__)
"""
    assert run_with(packages, script).startswith(str(packages))
