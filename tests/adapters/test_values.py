"""Documents of a framework: what the services that need more than conversations share."""

from __future__ import annotations

import pytest

import clew
from clew.adapters.documents import Documents
from clew.adapters.keyed import Keyed


@pytest.fixture
def keyed(tmp_path):
    keyed = Keyed(tmp_path / "c.db", "made-up", {})
    yield keyed
    keyed.close()


@pytest.fixture
def documents(keyed):
    return Documents(keyed)


def put(keyed, documents, names, value, **options):
    return keyed.refs.write_one(lambda tx: documents.put(tx, names, value, **options))


def test_a_value_is_replaced(keyed, documents):
    """A document has the last value that was stored under its names."""
    assert documents.value(documents.find("a", "b"), "none") == "none"
    put(keyed, documents, ("a", "b"), {"n": [1, None, "é"]})
    put(keyed, documents, ("a", "b"), {"n": 2})
    assert documents.value(documents.find("a", "b")) == {"n": 2}
    assert documents.find("ab") is None
    assert documents.find("a/b") is None


def test_groups(keyed, documents):
    """A group has its documents and no others, the newest first, however many there are."""
    for number in range(250):
        put(keyed, documents, ("g", str(number)), number, groups=[("one",), ("all",)])
    put(keyed, documents, ("g", "3"), "changed", groups=[("one",), ("all",)])
    put(keyed, documents, ("h", "3"), "other", groups=[("two",), ("all",)])
    found = [documents.value(row) for row in documents.group("one")]
    assert found == [number if number != 3 else "changed" for number in reversed(range(250))]
    assert len(list(documents.group("all"))) == 251
    assert list(documents.group("three")) == []


def test_entries(keyed, documents):
    """Bytes that were added to a document are read by their number."""

    def work(tx):
        row = documents.put(tx, ("a",), 1)
        documents.add_entry(tx, row, b"first")
        documents.add_entry(tx, row, b"")
        return row

    row = keyed.refs.write_one(work)
    assert [documents.entry(row, number) for number in (0, 1)] == [b"first", b""]
    with pytest.raises(clew.Corrupted):
        documents.entry(row, 2)


def test_deletion(keyed, documents, tmp_path):
    """A purged document leaves no trace; one that a session owns goes with it, and is hidden with it in the trash."""
    row = keyed.engine.write(lambda tx: keyed.ensure(tx, "s"))
    put(keyed, documents, ("own",), "needle", owner=row)
    put(keyed, documents, ("alone",), "needle")
    assert documents.purge("alone")
    assert not documents.purge("alone")
    session = keyed.find("s")
    session.trash()
    assert documents.find("own") is None
    with pytest.raises(clew.Conflict, match="trash"):
        put(keyed, documents, ("own",), "new")
    keyed.purge("s")
    assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]
    assert keyed.store.verify().ok
