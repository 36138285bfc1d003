"""Documents of a framework: what the services that need more than conversations share."""

from __future__ import annotations

import base64
import json

import pytest

import clew
from clew import redaction
from clew.adapters.documents import Documents
from clew.adapters.keyed import Keyed
from clew.store.redact_message import redact_message
from clew.store.scan import scan


@pytest.fixture
def keyed(tmp_path):
    keyed = Keyed(tmp_path / "c.db", "made-up", {})
    yield keyed
    keyed.close()


@pytest.fixture
def documents(keyed):
    return Documents(keyed)


def put(keyed, documents, names, value, **options):
    return keyed.write(lambda unit: documents.put(unit, names, value, **options))


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
    found = [documents.value(one) for one in documents.group("one")]
    assert found == [number if number != 3 else "changed" for number in reversed(range(250))]
    assert len(list(documents.group("all"))) == 251
    assert list(documents.group("three")) == []


def test_entries(keyed, documents):
    """Bytes that were added to a document are read by their number."""

    def work(unit):
        document = documents.put(unit, ("a",), 1)
        documents.add_entry(unit, document, b"first")
        documents.add_entry(unit, document, b"")
        return document

    document = keyed.write(work)
    assert [documents.entry(document, number) for number in (0, 1)] == [b"first", b""]
    with pytest.raises(clew.Corrupted):
        documents.entry(document, 2)


def test_deletion(keyed, documents, tmp_path):
    """A purged document leaves no trace; one that a session owns goes with it, and is hidden with it in the trash."""
    put(keyed, documents, ("own",), "needle", owner=keyed.ensured("s"))
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


def test_redaction(keyed, documents, tmp_path):
    """A secret that is removed from a message is removed from the documents of its session, too; a state is named."""
    session = keyed.ensured("s")
    (node,) = session.append([clew.user("Write to ada@example.org")])

    def work(unit):
        document = documents.put(unit, ("d",), {"to": "ada@example.org", "n": 1}, owner=session)
        documents.add_entry(unit, document, b"ada@example.org")

    keyed.write(work)
    rules = redaction.Rules(["email"])
    assert {spot.what for spot in scan(keyed.store, rules).spots} == {"message", "document"}
    done = redact_message(keyed.store, node, rules)
    assert done.receipt.failures == ()
    assert documents.value(documents.find("d"))["n"] == 1
    assert not [one for one in tmp_path.iterdir() if b"ada@example.org" in one.read_bytes()]
    state = {"values": {"m": {"data": base64.b64encode(b"ada@example.org").decode()}}}
    (again,) = session.append([clew.user("And ada@example.org")])
    value = json.dumps(state).encode()
    keyed.write(lambda unit: unit.put("state", keyed.key("x"), value, owner=session, exact=True))
    done = redact_message(keyed.store, again, rules)
    assert ["prune" in one.error for one in done.receipt.failures] == [True]
