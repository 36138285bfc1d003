"""The page over conversations of every tool and framework that can be imported, in a plain and in a sealed store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from html import escape
from io import BytesIO
from zipfile import ZipFile

import pytest

import clew
from clew.sources import find, import_all
from clew.sources.registry import source_named
from clew.web.outline import WINDOW
from clew.web.server import Server, listen
from clew.web.views import resume_command
from tests.sources.made import SESSION, jsonl
from tests.sources.samples import APPS, SAMPLES, Sample
from tests.sources.samples.recorded import RECORDED
from tests.sources.test_growing import random_log
from tests.web.conftest import Client

EVERY = [*SAMPLES, *APPS, *RECORDED]
Imported = tuple[Client, clew.Store, dict[str, list[str]]]


@pytest.fixture(scope="module", params=["plain", "sealed"])
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    """A page over all samples and over generated logs, and the sessions of each."""
    folder = tmp_path_factory.mktemp("imported")
    key = bytes(range(32)) if request.param == "sealed" else None
    for sample in EVERY:
        sample.write(folder / sample.name)
    for seed in range(3):
        (folder / f"generated{seed}").mkdir()
        log = jsonl(random_log(random.Random(seed), 80)).replace(SESSION.encode(), SESSION[:-1].encode() + b"%x" % seed)
        (folder / f"generated{seed}" / "log.jsonl").write_bytes(log)
    with clew.open(folder / "store.db", key=key) as store:
        found = {
            one.name: [talk.session for done in import_all(store, find([str(one)])) for talk in done.conversations]
            for one in sorted(folder.iterdir())
            if one.is_dir()
        }
        server = Server(lambda _: clew.open(folder / "store.db", key=key), listen(0))
        with server.in_background():
            yield Client(server), store, found


@pytest.mark.parametrize("name", [*(sample.name for sample in EVERY), "generated0", "generated1", "generated2"])
def test_every_conversation_has_its_pages(imported: Imported, name: str) -> None:
    """Each message of a window is on the page once; other forms, the prompts, the files and the exports answer."""
    client, store, found = imported
    assert found[name]
    for key in found[name]:
        session = store.sessions.get(key)
        total = sum(1 for _ in session.history())
        here = f"/c/{session.id}"
        for start in range(1, total + 1, WINDOW):
            page = client.get(f"{here}?from={start}").text
            numbers = range(start, min(start + WINDOW, total + 1))
            assert [number for number in numbers if page.count(f'id="m{number}"') != 1] == []
        assert [one["number"] for one in client.get(f"{here}.json").json["messages"]] == list(range(1, total + 1))[:200]
        page = client.get(here).text
        assert session.is_subagent or escape(resume_command(session)) in page
        for end in (".md", "/outline", "/outline.json", "/files", "/files.json", "/export/jsonl", "/export/native"):
            client.get(here + end)
        for node in session.path()[:5]:
            client.get(f"{here}/m/{node.id}/raw")
            assert client.ask(f"{here}/m/{node.id}").status == 303


@pytest.mark.parametrize("sample", EVERY, ids=repr)
def test_it_is_found_by_its_tool(imported: Imported, sample: Sample) -> None:
    """The filter for the tool has its name, and lists its conversations."""
    client, store, found = imported
    listed = client.get(f"/conversations.json?tool={sample.source}").json["conversations"]
    sessions = map(store.sessions.get, found[sample.name])
    own = {one.id for one in sessions if not one.is_subagent and one.head_id is not None}
    assert own <= {row["id"] for row in listed}
    assert escape(source_named(sample.source).title) in client.get(f"/?tool={sample.source}").text


def test_a_conversation_in_several_files_is_an_archive(imported: Imported) -> None:
    """As it was imported, it has all its files with their bytes; no name leads out of a folder."""
    client, _, found = imported
    answers = [client.get(f"/c/{key}/export/native") for key in found["codex"]]
    packed = [one for one in answers if ".zip" in one.headers["content-disposition"]]
    assert packed
    own = {data for sample in SAMPLES if sample.name == "codex" for data in sample.files.values()}
    for one in packed:
        with ZipFile(BytesIO(one.body)) as archive:
            assert len(archive.namelist()) > 1
            assert all(archive.read(name) in own and "/" not in name for name in archive.namelist())
