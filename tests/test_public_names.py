"""The names that programs rely on."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest

import clew
import clew.agents
import clew.aio
import clew.aio.agents
import clew.chat
import clew.chat.aio
import clew.convert
import clew.events
import clew.records
import clew.saving
import clew.testing
import clew.testing.providers
from clew.audit import Audit
from clew.blobs import Blobs
from clew.log import Log
from clew.nodes import Nodes
from clew.quarantine import Quarantine
from clew.sessions import Sessions

NAMES: dict[object, str] = {
    clew: "open Store Session Node Message Native Text Thinking ToolCall ToolResult Media Opaque Usage Save Counters "
    "Branch user assistant system tool native errors ClewError NotFound Ambiguous Conflict Implausible Invalid "
    "NotAStore Sealed WrongKey Tampered Unavailable StorageFull ReadOnly MissingPackage Unfinished SchemaTooNew Closed "
    "keys redaction retention __version__",
    clew.Store: "sessions nodes audit quarantine search verify backup transaction close path __enter__ __exit__",
    clew.Node: "id handle parent_id created_at message native role text depth counters redactions",
    clew.Session: "append path iter history watch fork rewind branches subagents compact rename label update attach "
    "delete hold release held hold_reason retain expires_at trash trashed_at "
    "refresh blobs log counters id handle title cwd model labels extra head_id version created_at updated_at agent "
    "forked_from forked_at owner_id __enter__ __exit__",
    Sessions: "create get latest list fork rename label delete hold release retain trash trashed restore purge",
    Quarantine: "sweep list restore purge on_event",
    Nodes: "save save_dialog get list path children subtree delete resolve handles",
    Blobs: "put get open stat",
    Log: "append read",
    clew.keys: "Key Passphrase generate check from_file from_env from_keyring from_passphrase key_id key_id_text "
    "recovery from_recovery",
    clew.redaction: "Rule Rules builtin redact Redacted Finding Annotation annotation NOTE",
    clew.errors: "ClewError NotFound Ambiguous Conflict Invalid Sealed WrongKey Tampered Unavailable "
    "StorageFull SchemaTooNew Implausible",
    clew.retention: "Policy preview sweep hold release set_policy get_policy Plan Swept Due Spared Sweeper",
    Audit: "record read jsonl",
    clew.aio: "open Sweeper Watch",
    clew.records: "RecordService Pending Policy CircuitOpen ConversationRecord ConversationRecordInput "
    "ConversationRecordMutation ConversationRecordSummary MessageFrame RecoverySnapshot PurgeReport to_json "
    "validate_record validate_input validate_mutation validate_frame validate_snapshot",
    clew.records.RecordService: "initialize dispose is_initialized create update get list delete purge_all "
    "commit_snapshot get_snapshot commit_conversation recoverable attach open_attachment export set_privacy "
    "set_policy policy sweep sweeper events pending",
    clew.events: "Events Event ConversationStored ConversationDeleted PurgeCompleted CapacityWarning "
    "CorruptionDetected RetentionInDoubt SlowWrites CircuitChanged OperationFinished",
    clew.agents: "open SessionStore Session SessionMetadata Options Transcript Event Mirror Rebuilt "
    "Memory Cleaned forget_mirror import_tree Imported ImportedSession Skipped project_hash",
    clew.agents.SessionStore: "create start load load_latest resume fork list delete cleanup append_message "
    "append_event load_messages load_messages_up_to transcript transcript_path memory mirror rebuild_mirror flush "
    "close",
    clew.agents.Session: "id metadata messages last add save append_and_save append_event transcript "
    "conversation refresh",
    clew.aio.agents: "open over import_tree SessionStore Session Transcript Memory",
    clew.convert: "convert convert_messages convert_session repair_messages Converted ConvertedSession "
    "ConvertedSnapshot Loss Report",
    clew.testing: "BackendConformance FakeClock SequentialIds",
    clew.chat: "ChatClient StreamingChatClient PersistentChatClient connect validate_base_url InvalidBaseURL "
    "MAX_BASE_URL_LENGTH Client ClaudeLocal Tool Reply UsageTotal ProviderError",
    clew.chat.aio: "connect AsyncClient Stream",
    clew.saving: "SavingMiddleware SavedClient AsyncSavedClient resume answered latest_answered",
    clew.testing.providers: "ProviderServer Request Say Fail Send ToolUse self_signed",
}


@pytest.mark.parametrize("thing", NAMES, ids=lambda thing: getattr(thing, "__name__", ""))
def test_public_names_are_there(thing: object) -> None:
    """Every name of the published list exists."""
    assert [name for name in NAMES[thing].split() if not hasattr(thing, name)] == []


def test_the_door_says_what_it_offers() -> None:
    """`clew.__all__` has every public name that is not a module, and each of them is there."""
    assert set(NAMES[clew].split()) - {"__version__"} <= set(clew.__all__)
    assert all(hasattr(clew, name) for name in clew.__all__)


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Classes and functions that a module defines under a public name, and their public members."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            yield name, thing
            for member, value in vars(thing).items():
                if not member.startswith("_") and (
                    inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod)
                ):
                    yield f"{name}.{member}", value
        elif inspect.isfunction(thing):
            yield name, thing


@pytest.mark.parametrize(
    "module",
    (
        "clew errors ids files keys model redaction node nodes blobs log watching session sessions search verify "
        "backup quarantine store scan audit policy due retention aio aio.retention aio.watching testing "
        "testing.control testing.contract testing.backend "
        "events exporting otel records records.shapes records.service records.deferred records.aio "
        "agents agents.session agents.store agents.transcript agents.memory agents.mirror agents.importing "
        "agents.options agents.metadata aio.agents "
        "convert convert.report convert.core convert.stored testing.snapshots "
        "chat.aio chat.base_url chat.client chat.connecting chat.conversation chat.events chat.local "
        "chat.protocols chat.tools testing.providers.answers testing.providers.server "
        "mcp mcp.tools mcp.http mcp.answers cpeconvo cpeconvo.reading cpeconvo.importing"
    ).split(),
)
def test_public_things_are_documented(module: str) -> None:
    """Every public class, function, method and property says what it does."""
    found = importlib.import_module("clew" if module == "clew" else f"clew.{module}")
    assert found.__doc__
    # An implementation of a contract, and a subclass that only fills in, may leave the words to what it implements.
    bare = [name for name, thing in public(found) if not inspect.getdoc(thing)]
    assert bare == []


def test_hits_reports_and_pages() -> None:
    """What search, verify, backup and list return has the fields that were promised."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        session.append(clew.user("lint step"))
        (hit,) = store.search("lint")
        assert (hit.node, hit.session, type(hit.snippet), type(hit.score)) == (session.path()[0], session, str, float)
        assert [hit.snippet[start:end] for start, end in hit.marks] == ["lint"]
        report = store.verify()
        assert (report.ok, report.damage, type(report.counts)) == (True, [], dict)
        page = store.sessions.list(total=True)
        assert (page.items, page.next_cursor, page.total) == ([session], None, 1)


def test_types_are_shipped() -> None:
    """`py.typed` lies beside the modules, and the package names its licence and its only dependency."""
    assert (Path(clew.__file__).parent / "py.typed").exists()
    meta = distribution("clew")
    core = [one for one in meta.requires or () if "extra ==" not in one]
    assert sorted(one.split(">")[0] for one in core) == ["msgspec"]
    assert meta.version == clew.__version__
