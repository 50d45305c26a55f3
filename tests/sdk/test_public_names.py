"""What users import, and what they need to have installed for it."""

import subprocess
import sys
import types

import celeriac


def test_the_public_names_are_those_listed_and_all_of_them() -> None:
    public = {
        name
        for name, value in vars(celeriac).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(celeriac.__all__)
    assert list(celeriac.__all__) == sorted(celeriac.__all__)


def test_every_public_name_says_what_it_is() -> None:
    assert [name for name in celeriac.__all__ if not getattr(celeriac, name).__doc__] == []


def test_nothing_but_httpx_is_needed() -> None:
    program = (
        "import sys\n"
        "for name in ('sqlalchemy', 'psycopg', 'redis', 'pydantic', 'orjson', 'celery', 'app', 'db', 'workers'):\n"
        "    sys.modules[name] = None\n"
        "import celeriac\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
