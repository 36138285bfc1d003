"""`ClewDataLayer`: conversations of real chats, a state machine against Chainlit's own layer, and what that cannot."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest

pytest.importorskip("chainlit.data", reason="chainlit is not installed")

import chainlit as cl
from chainlit.context import init_http_context
from chainlit.types import Pagination, ThreadFilter
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import clew
from clew.adapters.chainlit import ClewDataLayer
from tests.adapters.chainlit.apps import ask, chainlit_uses, liked, said, stored
from tests.adapters.chainlit.theirs import sql_layer
from tests.adapters.commands import QUESTION, expect_weather
from tests.adapters.processes import run_together


@pytest.fixture
def layer(opened):
    layer = opened(ClewDataLayer)
    yield layer
    chainlit_uses(None)
    assert layer.store.verify().ok
    layer.store.close()


def run(coroutine):
    async def within():
        init_http_context(thread_id="none")
        return await coroutine

    return asyncio.run(within())


async def put(layer, *steps):
    for one in steps:
        await layer.create_step(one)


def outputs(thread):
    return [step["output"] for step in thread["steps"]]


def texts(layer):
    return [node.text for node in layer.store.sessions.latest().path()]


def test_a_chat_is_a_conversation(layer):
    """A chat has the roles, the call and its result; the layer returns the steps as Chainlit wrote them."""
    user = run(layer.create_user(cl.User("ada", display_name="Ada")))
    asyncio.run(ask(layer, "t", user=user))
    session = layer.store.sessions.latest()
    assert [node.role for node in session.path()] == ["user", "assistant", "assistant"]
    call, result = session.path()[1].message.blocks
    assert (call.name, call.arguments) == ("weather", {"city": "Turin"})
    assert (result.call_id, result.content[0].text) == (call.id, "sunny")
    assert texts(layer) == ["Weather?", "sunny", "It is sunny."]
    thread = run(layer.get_thread("t"))
    assert [step["type"] for step in thread["steps"]] == ["user_message", "run", "tool", "assistant_message"]
    assert all(step["end"] for step in thread["steps"])
    assert (thread["userId"], thread["userIdentifier"]) == (user.id, "ada")
    assert run(layer.get_thread_author("t")) == "ada"
    assert run(layer.get_user("ada")) == user
    assert len(layer.store.search("sunny")) >= 2


def test_a_step_comes_before_its_thread(layer):
    """A step is stored before its thread is known, and the thread's name, user and tags come later."""
    user = run(layer.create_user(cl.User("ada")))
    run(put(layer, said("t", "1", "hello")))
    run(layer.update_thread("t", name="Trip", user_id=user.id, metadata={"a": 1, "b": None}, tags=["x"]))
    run(layer.update_thread("t", metadata={"c": 2}))
    found = run(layer.get_thread("t"))
    assert (found["name"], found["tags"], found["metadata"]) == ("Trip", ["x"], {"a": 1, "c": 2})
    assert outputs(found) == ["hello"]
    session = layer.store.sessions.latest()
    assert session.title == "Trip"
    session.rename("Turin")
    assert run(layer.get_thread("t"))["name"] == "Turin"
    with pytest.raises(ValueError, match="Author"):
        run(layer.get_thread_author("unknown"))
    assert run(layer.get_thread("unknown")) is None


def test_a_call_that_has_not_ended(layer):
    """A call that has begun is returned, and is part of the conversation once it has ended."""
    run(put(layer, said("t", "1", "", "tool", name="weather", end=None)))
    assert texts(layer) == []
    assert outputs(run(layer.get_thread("t"))) == [""]
    run(layer.update_step(said("t", "1", "sunny", "tool", input='{"city": "Turin"}')))
    assert texts(layer) == ["sunny"]
    (step,) = run(layer.get_thread("t"))["steps"]
    assert (step["output"], step["name"]) == ("sunny", "bot")


def test_a_message_that_is_changed(layer):
    """A new text replaces the old one, also in the middle; what comes after it stays, with its files."""
    run(put(layer, said("t", "1", "one"), said("t", "2", "two")))
    picture = cl.Image(content=b"picture", name="p", for_id="2", id="e", thread_id="t", mime="image/png")
    run(layer.create_element(picture))
    run(put(layer, said("t", "3", "three")))
    run(layer.update_step(said("t", "1", "changed", metadata={"n": 1})))
    assert texts(layer) == ["changed", "two", "", "three"]
    assert layer.store.sessions.latest().branches() == []
    assert layer.store.search("one") == []
    assert run(layer.get_element("t", "e"))["url"].startswith("data:image/png;base64,")
    run(layer.delete_step("2"))
    assert texts(layer) == ["changed", "three"]
    assert run(layer.get_thread("t"))["elements"] == []


def test_a_thread_on_hold(layer):
    """In a thread on hold an old text, and a step that is removed, stay as branches; the thread cannot be deleted."""
    run(put(layer, said("t", "1", "one"), said("t", "2", "two"), said("t", "3", "", "tool", end=None)))
    session = layer.store.sessions.latest()
    session.hold()
    run(layer.update_step(said("t", "1", "changed")))
    run(layer.update_step(said("t", "3", "done", "tool")))
    assert outputs(run(layer.get_thread("t"))) == texts(layer) == ["changed", "two", "done"]
    run(layer.delete_step("2"))
    assert texts(layer) == ["changed", "done"]
    assert len(session.branches()) == 2
    with pytest.raises(clew.Conflict):
        run(layer.delete_thread("t"))
    session.release()


def test_favorites(layer):
    """Favorites of a user are found in all threads; a mark does not store the conversation again."""
    user = run(layer.create_user(cl.User("ada")))
    for name in ("t", "u"):
        run(layer.update_thread(name, user_id=user.id))
    run(put(layer, said("t", "1", "one"), said("t", "2", "two"), said("u", "3", "three")))
    before = [node.id for node in layer.store.sessions.latest().path()]
    for step in (said("t", "1", "one"), said("u", "3", "three")):
        run(layer.set_step_favorite(step, True))
    assert [one["output"] for one in run(layer.get_favorite_steps(user.id))] == ["three", "one"]
    assert [node.id for node in layer.store.sessions.latest().path()] == before
    run(layer.set_step_favorite(said("t", "1", "one"), False))
    assert [one["id"] for one in run(layer.get_favorite_steps(user.id))] == ["3"]
    run(layer.delete_step("3"))
    assert run(layer.get_favorite_steps(user.id)) == []


def test_elements(layer, tmp_path):
    """The content of an element is a blob of the conversation; one with a URL is not downloaded."""
    (tmp_path / "report.txt").write_text("report")
    run(put(layer, said("t", "1", "See:", "user_message")))
    about = {"for_id": "1", "thread_id": "t"}
    run(layer.create_element(cl.File(path=str(tmp_path / "report.txt"), name="report.txt", id="f", **about)))
    run(layer.create_element(cl.Image(url="https://example.com/a.png", name="a", id="i", mime="image/png", **about)))
    run(layer.create_element(cl.CustomElement(props={"n": 1}, name="c", id="c", **about)))
    run(layer.create_element(cl.CustomElement(props={"n": 2}, name="c", id="c", **about)))
    found = {one["id"]: one for one in run(layer.get_thread("t"))["elements"]}
    assert found["i"]["url"] == "https://example.com/a.png"
    assert found["c"]["props"] == {"n": 2}
    assert run(layer.get_element("t", "f")) == found["f"]
    nodes = layer.store.sessions.latest().path()
    assert {node.role for node in nodes} == {"user"}
    (file,) = nodes[1].message.blocks
    assert layer.store.blobs.get(layer.store.sessions.latest(), file.blob) == b"report"
    run(layer.delete_element("f", "t"))
    assert run(layer.get_element("t", "f")) is None
    with pytest.raises(clew.NotFound):
        layer.store.blobs.get(layer.store.sessions.latest(), file.blob)


def test_feedback(layer):
    """Feedback comes with its step, is replaced by its id, and finds threads."""
    user = run(layer.create_user(cl.User("ada")))
    for name in ("t", "u"):
        run(layer.update_thread(name, user_id=user.id, name=name))
    run(put(layer, said("t", "1", "one"), said("u", "2", "two")))
    id = run(layer.upsert_feedback(liked("1", 0)))
    run(layer.upsert_feedback(liked("1", 1, id=id, comment="good")))
    (step,) = run(layer.get_thread("t"))["steps"]
    assert step["feedback"] == {"forId": "1", "id": id, "value": 1, "comment": "good"}

    def listed(**filters):
        return run(layer.list_threads(Pagination(first=9), ThreadFilter(userId=user.id, **filters))).data

    assert [one["id"] for one in listed(feedback=1)] == ["t"]
    assert [one["id"] for one in listed(search="TWO")] == ["u"]
    assert listed(feedback=0) == listed(search="nothing") == []
    assert run(layer.delete_feedback(id))
    assert run(layer.get_thread("t"))["steps"][0]["feedback"] is None
    with pytest.raises(clew.NotFound):
        run(layer.upsert_feedback(liked("unknown")))


def test_pages(layer):
    """Pages of threads are complete, last active first, and have those of one user alone."""
    users = [run(layer.create_user(cl.User(name))) for name in ("ada", "bob")]
    for number in range(7):
        run(layer.update_thread(f"t{number}", user_id=users[number % 2].id))
    found, cursor = [], None
    while True:
        page = run(layer.list_threads(Pagination(first=2, cursor=cursor), ThreadFilter(userId=users[0].id)))
        found += [one["id"] for one in page.data]
        cursor = page.pageInfo.endCursor
        if not page.pageInfo.hasNextPage:
            break
    assert found == ["t6", "t4", "t2", "t0"]
    with pytest.raises(ValueError, match="userId"):
        run(layer.list_threads(Pagination(first=2), ThreadFilter()))


def test_odd_values(layer):
    """A step that is no message of clew, and one without a thread: the first is returned, the second is refused."""
    run(put(layer, said("t", "1", "one", metadata={"n": float("nan")}), said("t", "2", "n\0ul")))
    assert outputs(run(layer.get_thread("t"))) == ["one", "n\0ul"]
    assert texts(layer) == ["n\0ul"]
    with pytest.raises(clew.Invalid):
        run(layer.create_step({"id": "3", "type": "run"}))


def test_deletion_leaves_nothing(tmp_path):
    """After a deletion no file beside the store has a word of the thread, its files or its feedback."""
    layer = ClewDataLayer(tmp_path / "c.db")
    asyncio.run(ask(layer, "t", "needle?"))
    run(put(layer, said("t", "1", "needle"), said("t", "2", "needle", "tool", end=None)))
    run(layer.create_element(cl.File(content=b"needle", name="needle", for_id="1", thread_id="t")))
    run(layer.upsert_feedback(liked("1", comment="needle")))
    run(layer.delete_thread("t"))
    assert run(layer.get_thread("t")) is None
    assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]
    asyncio.run(layer.close())


def fill(path, name):
    layer = ClewDataLayer(path)
    for number in range(30):
        run(put(layer, said("t", f"{name}{number}", f"{name} {number}")))


def test_two_processes(tmp_path):
    """Two processes that write to one thread lose nothing."""
    path = os.fspath(tmp_path / "c.db")
    run_together(fill, path, ("x", "y"))
    layer = ClewDataLayer(path)
    found = [node.text for node in layer.store.sessions.latest().path()]
    for name in ("x", "y"):
        assert [one for one in found if one.startswith(name)] == [f"{name} {number}" for number in range(30)]
    layer.store.close()


def test_a_cancelled_task(tmp_path):
    """A step whose task is cancelled while it is being stored is stored when the cancellation is raised."""
    layer = ClewDataLayer(tmp_path / "c.db")

    async def cancel():
        init_http_context(thread_id="t")
        task = asyncio.create_task(layer.create_step(said("t", "1", "one")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert outputs(run(layer.get_thread("t"))) == ["one"]
    layer.store.close()


def test_in_the_command_line(opened):
    """A chat with a tool call is listed, found, shown, redacted and purged."""
    layer = opened(ClewDataLayer)
    asyncio.run(ask(layer, "t", QUESTION))
    asyncio.run(layer.close())
    chainlit_uses(None)
    expect_weather(opened)


STEPS = st.sampled_from(["1", "2", "3", "4"])
THREADS = {"1": "a", "2": "a", "3": "a", "4": "b"}
FIELDS = ("id", "type", "output", "parentId", "name", "end", "feedback")


class SameAsSQL(RuleBasedStateMachine):
    """Every thread has the same steps, names and feedback in our layer and in Chainlit's layer on SQLite."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.runner = asyncio.Runner()
        self.ours = ClewDataLayer(os.path.join(self.folder, "c.db"))
        self.theirs = self.runner.run(sql_layer(self.folder))

    def both(self, method, *args, **more):
        async def call():
            init_http_context(thread_id="none")
            await stored()
            for one in (self.theirs, self.ours):
                await getattr(one, method)(*[dict(arg) if isinstance(arg, dict) else arg for arg in args], **more)
            return [[_seen(await one.get_thread(name)) for name in ("a", "b")] for one in (self.theirs, self.ours)]

        theirs, ours = self.runner.run(call())
        assert ours == theirs

    @rule(id=STEPS, text=st.sampled_from(["x", "y"]), kind=st.sampled_from(["user_message", "tool", "run"]))
    def create(self, id, text, kind):
        self.both("create_step", said(THREADS[id], id, text, kind))

    @rule(id=STEPS, text=st.sampled_from(["x", "z"]))
    def begin(self, id, text):
        self.both("create_step", said(THREADS[id], id, text, "tool", end=None))

    @rule(id=STEPS)
    def delete(self, id):
        self.both("delete_step", id)

    @rule(name=st.sampled_from(["a", "b"]), title=st.none() | st.just("Trip"), key=st.sampled_from(["k", "l"]))
    def update(self, name, title, key):
        self.both("update_thread", name, name=title, metadata={key: title})

    @rule(name=st.sampled_from(["a", "b"]))
    def delete_thread(self, name):
        self.both("delete_thread", name)

    @rule(id=st.sampled_from(["1", "2", "3"]), value=st.sampled_from([0, 1]))
    def like(self, id, value):
        if any(step["id"] == id for step in (_seen(self.runner.run(self.ours.get_thread("a"))) or ["", {}, []])[2]):
            self.both("upsert_feedback", liked(id, value, id=f"f{id}", threadId="a"))

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.store.close()
        self.runner.run(self.theirs.close())
        self.runner.close()


def _seen(thread):
    """What both layers must agree on; theirs has JSON as text, and no order for steps of one time."""
    import json

    if thread is None:
        return None
    metadata = thread["metadata"]
    steps = [{field: step.get(field) for field in FIELDS} for step in thread["steps"]]
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    return [thread["name"], metadata, sorted(steps, key=lambda step: step["id"])]


SameAsSQL.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsSQL = SameAsSQL.TestCase
