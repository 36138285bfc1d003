"""`ClewSessionService`: a state machine against ADK's service in memory, and what that one cannot show."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.cli.service_registry import ServiceRegistry, _register_services_from_yaml_config
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import clew
from clew.adapters.google_adk import ClewArtifactService, ClewMemoryService, ClewSessionService
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.google_adk.agents import agent, user
from tests.adapters.google_adk.test_contract import ONE, WHO, said, texts
from tests.adapters.processes import run_together

USERS = st.sampled_from(["ada", "bob"])
IDS = st.sampled_from(["s1", "s2", "s3"])
# No infinite numbers: the JSON of an event has none.
DELTAS = st.dictionaries(
    st.sampled_from(["a", "b", "app:a", "user:a", "user:b", "temp:a"]),
    st.none()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.lists(st.booleans()),
)


class SameAsInMemory(RuleBasedStateMachine):
    """Every call has the same outcome in both services, and both have the same sessions and states after it."""

    def __init__(self):
        super().__init__()
        self.ours = ClewSessionService(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = InMemorySessionService()
        self.now = 0
        self.runner = asyncio.Runner()

    def both(self, call):
        done = []
        for service in (self.theirs, self.ours):
            try:
                done.append(self.runner.run(call(service)))
            except (AlreadyExistsError, SessionNotFoundError) as error:
                done.append(type(error))
        return done

    @rule(name=USERS, id=IDS, state=DELTAS)
    def create(self, name, id, state):
        async def call(service):
            made = await service.create_session(app_name="app", user_id=name, session_id=id, state=dict(state))
            return made.state

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=USERS, id=IDS, delta=DELTAS, recent=st.none() | st.integers(0, 2), twice=st.booleans())
    def append(self, name, id, delta, recent, twice):
        self.now += 1
        event = said(f"m{self.now}", self.now, **delta)

        async def call(service):
            config = GetSessionConfig(num_recent_events=recent)
            found = await service.get_session(app_name="app", user_id=name, session_id=id, config=config)
            if found is None:
                return None
            mine = event.model_copy(deep=True)
            await service.append_event(found, mine)
            if twice:
                await service.append_event(found, mine.model_copy(deep=True))
            return found.model_dump()

        theirs, ours = self.both(call)
        assert theirs == ours
        self.check()

    @rule(name=USERS, id=IDS)
    def delete(self, name, id):
        self.both(lambda service: service.delete_session(app_name="app", user_id=name, session_id=id))
        self.check()

    def check(self):
        async def state(service):
            found: dict[object, object] = {}
            for name in ("ada", "bob"):
                found[name] = await service.get_user_state(app_name="app", user_id=name)
                for one in (await service.list_sessions(app_name="app", user_id=name)).sessions:
                    whole = await service.get_session(app_name="app", user_id=name, session_id=one.id)
                    assert one.state == whole.state
                    found[name, one.id] = whole.model_dump(exclude={"last_update_time"})
            return found

        theirs, ours = self.both(state)
        assert theirs == ours

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.close()


SameAsInMemory.TestCase.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInMemory = SameAsInMemory.TestCase


@pytest.fixture
def run():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def service(opened):
    with opened(ClewSessionService) as service:
        yield service


async def ask(runner, text, **ids):
    return [event async for event in runner.run_async(**ids, new_message=user(text))]


def test_a_run_is_a_conversation(service, run):
    """A run is a session with roles, calls, results and tokens; the next run sees it; the words are found."""
    runner = Runner(app_name="app", agent=agent(), session_service=service)
    run(service.create_session(**ONE))
    run(ask(runner, "Weather?", user_id="ada", session_id="s"))
    run(ask(runner, "Again?", user_id="ada", session_id="s"))
    stored = run(service.get_session(**ONE))
    assert stored.state == {"answer": "It is sunny in Turin."}
    session = service.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "tool", "assistant"] * 2
    assert session.extra["source"]["id"] == "app/ada/s"
    answer = session.path()[3].message
    assert (answer.text, answer.model, answer.usage.input) == ("It is sunny in Turin.", "scripted-1", 5)
    assert len(service.store.search("Turin")) >= 2
    assert service.store.verify().ok


def test_rewind(service, run):
    """A rewind of ADK is an event like any other: state and artifacts are as they were before the invocation."""
    runner = Runner(
        app_name="app", agent=agent(), session_service=service, artifact_service=ClewArtifactService(service.store)
    )
    run(service.create_session(**ONE))
    run(ask(runner, "Weather?", user_id="ada", session_id="s"))
    second = run(ask(runner, "Again?", user_id="ada", session_id="s"))
    run(runner.rewind_async(user_id="ada", session_id="s", rewind_before_invocation_id=second[0].invocation_id))
    assert run(service.get_session(**ONE)).events[-1].actions.rewind_before_invocation_id == second[0].invocation_id


def test_reject(service, run):
    """By default an event of a session that others have added to is refused, and changes nothing."""
    first = run(service.create_session(**ONE))
    second = run(service.get_session(**ONE))
    run(service.append_event(first, said("1", 1)))
    with pytest.raises(StaleSessionError):
        run(service.append_event(second, said("2", 0, a=1, **{"user:b": 2})))
    stored = run(service.get_session(**ONE))
    assert (texts(stored), stored.state) == (["1"], {})
    run(service.append_event(stored, said("3", 0)))
    assert texts(run(service.get_session(**ONE))) == ["1", "3"]


def test_an_event_that_is_sent_again(service, run):
    """An event whose answer was lost is stored once, with its state; the session object gets it, and continues."""
    session = run(service.create_session(**ONE))
    run(service.append_event(session, said("0", 0)))
    again = session.model_copy(deep=True)
    for event in (said("1", 1, a=1), said("2", 2)):
        run(service.append_event(session, event.model_copy(deep=True)))
        run(service.append_event(again, event))
    assert again == session == run(service.get_session(**ONE))
    run(service.append_event(again, said("3", 3)))
    assert texts(run(service.get_session(**ONE))) == ["0", "1", "2", "3"]


def test_renaming_is_no_conflict(service, run):
    """A session is stale by its events alone: a title does not make it so, nor does a clock that stands still."""
    session = run(service.create_session(**ONE))
    service.store.sessions.latest().rename("Trip")
    for number in range(5):
        run(service.append_event(session, said(str(number), 7)))
    assert texts(run(service.get_session(**ONE))) == ["0", "1", "2", "3", "4"]
    assert service.store.sessions.latest().title == "Trip"


def test_merge(opened, run):
    """With merge, an event goes after those of others, and the session object gets them with their state."""
    with opened(ClewSessionService, on_conflict="merge") as service:
        first = run(service.create_session(**ONE))
        second = run(service.get_session(**ONE))
        run(service.append_event(first, said("1", 1, a=1)))
        run(service.append_event(first, said("2", 2, b=1)))
        run(service.append_event(second, said("3", 3, a=3)))
        assert texts(second) == ["1", "2", "3"]
        run(service.append_event(first, said("4", 4)))
        stored = run(service.get_session(**ONE))
        assert stored == first
        assert (texts(stored), stored.state) == (["1", "2", "3", "4"], {"a": 3, "b": 1})


def test_fork(opened, run):
    """With fork, the second writer continues in a session of its own, with the events and the state it has seen."""
    with opened(ClewSessionService, on_conflict="fork") as service:
        first = run(service.create_session(**ONE, state={"a": 0}))
        run(service.append_event(first, said("0", 0)))
        second = run(service.get_session(**ONE))
        run(service.append_event(first, said("1", 1, a=1)))
        run(service.append_event(second, said("2", 2, b=2)))
        assert second.id != "s"
        run(service.append_event(second, said("3", 3)))
        stored = run(service.get_session(**ONE))
        assert (texts(stored), stored.state) == (["0", "1"], {"a": 1})
        fork = run(service.get_session(**WHO, session_id=second.id))
        assert fork == second
        assert (texts(fork), fork.state) == (["0", "2", "3"], {"a": 0, "b": 2})
        assert len(run(service.list_sessions(**WHO)).sessions) == 2
        origin = service.store.sessions.list().items[-1]
        assert service.store.sessions.latest().forked_from == origin.id
        run(service.delete_session(**ONE))
        assert texts(run(service.get_session(**WHO, session_id=second.id))) == ["0", "2", "3"]
        assert service.store.verify().ok


def test_events_of_one_session_object_take_turns(service, run):
    """Appends of parallel agents through one session object are no conflict."""

    async def parallel():
        session = await service.create_session(**ONE)
        await asyncio.gather(*(service.append_event(session, said(str(number), number)) for number in range(20)))
        return session, await service.get_session(**ONE)

    session, stored = run(parallel())
    assert stored.events == session.events
    assert {*texts(stored)} == {str(number) for number in range(20)}


def test_a_cancelled_append_is_whole(service, run):
    """An append that is cancelled has stored its event and state when the task learns of it."""

    async def cancel():
        session = await service.create_session(**ONE)
        task = asyncio.create_task(service.append_event(session, said("1", 1, a=1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await service.get_session(**ONE)

    stored = run(cancel())
    assert (texts(stored), stored.state) == (["1"], {"a": 1})


def test_deleted_sessions_leave_nothing(tmp_path, run):
    """After a deletion no file beside the store has a word of the session."""
    with ClewSessionService(tmp_path / "c.db") as service:
        session = run(service.create_session(**ONE, state={"n": "needle"}))
        for number in range(20):
            run(service.append_event(session, said(f"needle {number}", number)))
        run(service.delete_session(**ONE))
        assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]


def test_the_trash_is_not_overwritten(service, run):
    """A session in the trash is not found, and its id is not given away."""
    run(service.create_session(**ONE))
    service.store.sessions.latest().trash()
    assert run(service.get_session(**ONE)) is None
    with pytest.raises(clew.Conflict, match="trash"):
        run(service.create_session(**ONE))


def test_wrong_settings_are_refused(tmp_path):
    """A service without a store, with an unknown way or an unknown address says so."""
    with pytest.raises(clew.Invalid, match="on_conflict"):
        ClewSessionService(tmp_path / "c.db", on_conflict="shout")
    with pytest.raises(clew.Invalid, match="needs a store"):
        ClewSessionService()
    for uri in ("clew://", "sqlite://x.db", "clew://x.db?size=1"):
        with pytest.raises(clew.Invalid):
            ClewSessionService(uri=uri)


def test_services_yaml(tmp_path, monkeypatch, run):
    """ADK's registry makes all three services from one address, also of a sealed store."""
    registry = ServiceRegistry()
    package = "clew.adapters.google_adk"
    names = {"session": "ClewSessionService", "artifact": "ClewArtifactService", "memory": "ClewMemoryService"}
    services = [{"scheme": "clew", "type": kind, "class": f"{package}.{name}"} for kind, name in names.items()]
    _register_services_from_yaml_config({"services": services}, registry)
    monkeypatch.setenv("MY_KEY", "ab" * 32)
    uri = f"clew://{tmp_path}/c.db?key=MY_KEY"
    sessions = registry.create_session_service(uri, agents_dir=str(tmp_path))
    artifacts = registry.create_artifact_service(uri, agents_dir=str(tmp_path), per_agent=False)
    memory = registry.create_memory_service(uri, agents_dir=str(tmp_path))
    assert isinstance(artifacts, ClewArtifactService)
    assert isinstance(memory, ClewMemoryService)
    run(sessions.create_session(**ONE))
    assert sessions.store.key_status().state == "sealed"
    for one in (sessions, artifacts, memory):
        one.close()


def race(path, name):
    async def work():
        with ClewSessionService(path, on_conflict="merge") as service:
            try:
                session = await service.create_session(**ONE)
            except AlreadyExistsError:
                session = await service.get_session(**ONE)
            for number in range(20):
                await service.append_event(session, said(f"{name} {number}", number, **{f"user:{name}{number}": 1}))

    asyncio.run(work())


def test_two_processes(tmp_path, run):
    """Two processes that merge lose no event and no state."""
    path = run_together(race, tmp_path / "c.db")
    with ClewSessionService(path) as service:
        stored = run(service.get_session(**ONE))
        for name in ("a", "b"):
            assert [one for one in texts(stored) if one.startswith(name)] == [f"{name} {n}" for n in range(20)]
        assert len(stored.state) == 40
        assert service.store.verify().ok


KILLED = """
import asyncio, os, signal, sys
from clew.adapters.google_adk import ClewSessionService
from tests.adapters.google_adk.test_contract import ONE, said
async def main():
    service = ClewSessionService(sys.argv[1])
    session = await service.create_session(**ONE)
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGKILL)
    for number in range(100000):
        await service.append_event(session, said(str(number), number, count=number + 1, **{"user:count": number + 1}))
        print(number, flush=True)
asyncio.run(main())
"""


def test_killed(killed, tmp_path, run):
    """After kill -9 every acknowledged event is there, and the state is that of the last event."""
    acknowledged = len(killed(KILLED).split())
    with ClewSessionService(tmp_path / "chats.db") as service:
        stored = run(service.get_session(**ONE))
        assert len(stored.events) >= acknowledged
        count = len(stored.events)
        assert stored.state == ({"count": count, "user:count": count} if count else {})


def test_the_command_line_shows_it(tmp_path, run):
    """`clew ls`, `show`, `search` and `export` show a run with roles, calls and results."""
    with ClewSessionService(tmp_path / "c.db") as service:
        run(service.create_session(**ONE))
        run(
            ask(
                Runner(app_name="app", agent=agent(), session_service=service),
                "Weather?",
                user_id="ada",
                session_id="s",
            )
        )

    def clew_says(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "clew", *arguments, "--db", str(tmp_path / "c.db")],
            capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Weather?" in clew_says("ls")
    shown = clew_says("show", "@last")
    assert all(word in shown for word in ("weather", "Turin", "sunny in Turin"))
    assert "sunny" in clew_says("search", "sunny")


def test_in_the_command_line(opened):
    """A session with a tool call is listed, found, shown, redacted and purged."""

    async def run(service):
        await service.create_session(**ONE)
        runner = Runner(app_name=ONE["app_name"], agent=agent(), session_service=service)
        async for _ in runner.run_async(
            user_id=ONE["user_id"], session_id=ONE["session_id"], new_message=user(QUESTION)
        ):
            pass

    with opened(ClewSessionService) as service:
        asyncio.run(run(service))
    expect_weather(opened)
