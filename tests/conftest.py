"""What every test may ask for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent

# What starts Spark takes longest.
FIRST = ("spark", "connect", "tests/spark/test_kills.py", "tests/test_examples.py", "tests/cli/test_run.py")

# The same examples every time, so that a change is blamed for what it broke; `make test-long` draws fresh ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fresh", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")


class Finished(Protocol):
    """How a command ended."""

    code: int
    out: str
    err: str


def worker_group(test: str) -> str:
    """Return which tests share a worker: those of the shared session, of the one Connect port, of a module."""
    module, _, name = test.partition("::")
    if "connect" in name:
        return "connect"
    return "spark" if "tests/spark/" in module and module not in FIRST else module


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups that take longest, so that one worker does not end alone."""
    items.sort(key=lambda item: worker_group(item.nodeid) not in FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the groups together."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return worker_group(nodeid)

    return Groups(config, log)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the experiments of ``tests/toys`` on the registry, for tests that must not depend on a real one."""
    from evenflow.experiments import registry

    monkeypatch.syspath_prepend(str(TESTS / "toys"))  # spawned workers get the same path
    monkeypatch.setattr(registry, "FAMILIES", {"toy": "toy_experiments"})


@pytest.fixture
def evenflow(capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Run the command in this process: ``evenflow("plan", "f.json").code``."""
    from evenflow.cli.main import main

    class Ended:
        def __init__(self, words: Sequence[str]) -> None:
            capfd.readouterr()
            self.code = main([str(word) for word in words])
            sys.stdout.flush()
            self.out, self.err = capfd.readouterr()

    return lambda *words: Ended(words)


@pytest.fixture(scope="session")
def tracked_files() -> list[Path]:
    """Every file the repository holds, or would hold: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
