"""What the tests share: real stores in temporary folders, with the clock and the ids under control where it matters."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import clew
from clew.store.store import Store
from tests import lanes
from tests.engine.objects.server import NodeLocation, Server

pytest.register_assert_rewrite("clew.testing", "tests.concurrency.workers")

settings.register_profile("clew", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("clew")

# Who starts the tests in the background may have them ignore these, and programs that they start inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["tests.costs"] if os.environ.get("CLEW_TEST_COSTS") else []

SOAK = 3600
"""Seconds that a test of `make soak` may take; the others have those of pyproject.toml."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by the marks that are given here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives tests their lane, and long ones the time they need."""
    config.stash[lanes.COLLECTED] = [item.nodeid for item in items]
    for item in items:
        if lanes.is_full(item.nodeid):
            item.add_marker(pytest.mark.full)
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at the end what was skipped: one line per reason."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports if report.longrepr)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")


@pytest.fixture(scope="session", autouse=True)
def few_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing here goes further than this machine: a client need not read all of the world's certificates."""
    from clew.testing.providers import self_signed  # not before its asserts are rewritten

    certificate, _ = self_signed(tmp_path_factory.mktemp("certificates"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield


@pytest.fixture
def quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derives keys from passphrases with little work, in this process: for tests that do it hundreds of times."""
    from cryptography.hazmat.primitives.kdf import argon2

    slow = argon2.Argon2id

    def quick(*, salt: bytes, length: int, **_: int) -> argon2.Argon2id:
        return slow(salt=salt, length=length, iterations=1, lanes=1, memory_cost=8)

    monkeypatch.setattr(argon2, "Argon2id", quick)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A new store in a file."""
    with clew.open(path) as store:
        yield store


@pytest.fixture
def sound() -> Callable[[Store], None]:
    """Asserts that everything in a store is as it was written."""

    def check(store: Store) -> None:
        report = store.verify()
        assert report.ok, report.damage

    return check


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks S3, for all tests of a run."""
    server = Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def place(s3: Server) -> NodeLocation:
    """A bucket on it that no other test uses."""
    return s3.bucket()
