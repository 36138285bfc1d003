"""`ClewArtifactService`: a state machine against ADK's service in memory, and what that one cannot show."""

from __future__ import annotations

import asyncio
import os
import tempfile

import pytest

pytest.importorskip("google.adk.sessions", reason="google-adk is not installed")

from google.adk.artifacts import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from clew.adapters.google_adk import ClewArtifactService, ClewSessionService

WHERE = st.fixed_dictionaries(
    {
        "app_name": st.sampled_from(["app", "other"]),
        "user_id": st.sampled_from(["ada", "bob"]),
        "session_id": st.sampled_from([None, "s1", "s2"]),
    }
)
FILES = st.sampled_from(["a.txt", "dir/b.png", "user:a.txt"])
PARTS = st.one_of(
    st.text().map(lambda text: types.Part(text=text)),
    st.binary().map(lambda data: types.Part(inline_data=types.Blob(mime_type="image/png", data=data))),
    st.just(types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))),
    st.just(types.Part(file_data=types.FileData(file_uri="gs://b/x.pdf", mime_type="application/pdf"))),
    st.just(types.Part(file_data=types.FileData(file_uri="artifact://nonsense"))),
    st.sampled_from(["a.txt", "user:a.txt"]).map(
        lambda name: types.Part(
            file_data=types.FileData(file_uri=f"artifact://apps/app/users/ada/sessions/s1/artifacts/{name}/versions/0")
        )
    ),
    st.just(types.Part(function_call=types.FunctionCall(name="x"))),
)


class SameAsInMemory(RuleBasedStateMachine):
    """Every call has the same outcome in both services."""

    def __init__(self):
        super().__init__()
        self.ours = ClewArtifactService(os.path.join(tempfile.mkdtemp(), "c.db"))
        self.theirs = InMemoryArtifactService()
        self.runner = asyncio.Runner()

    def same(self, method, **given):
        done = []
        for service in (self.theirs, self.ours):
            try:
                done.append(self.runner.run(getattr(service, method)(**given)))
            except InputValidationError as error:
                done.append(type(error))
        return done

    @rule(where=WHERE, filename=FILES, artifact=PARTS, metadata=st.sampled_from([None, {"a": [1]}]))
    def save(self, where, filename, artifact, metadata):
        theirs, ours = self.same(
            "save_artifact", **where, filename=filename, artifact=artifact, custom_metadata=metadata
        )
        assert theirs == ours
        self.load(where=where, filename=filename, version=None)

    @rule(where=WHERE, filename=FILES, version=st.none() | st.integers(-1, 3))
    def load(self, where, filename, version):
        theirs, ours = self.same("load_artifact", **where, filename=filename, version=version)
        assert theirs == ours
        theirs, ours = self.same("get_artifact_version", **where, filename=filename, version=version)
        assert self.about(theirs) == self.about(ours)

    def about(self, one):
        """All but the time, and the address, which names the service."""
        return one if one is None or isinstance(one, type) else (one.version, one.custom_metadata, one.mime_type)

    @rule(where=WHERE, filename=FILES)
    def versions(self, where, filename):
        theirs, ours = self.same("list_versions", **where, filename=filename)
        assert theirs == ours
        theirs, ours = self.same("list_artifact_versions", **where, filename=filename)
        if isinstance(theirs, list):
            assert list(map(self.about, theirs)) == list(map(self.about, ours))

    @rule(where=WHERE)
    def keys(self, where):
        theirs, ours = self.same("list_artifact_keys", **where)
        assert theirs == ours

    @rule(where=WHERE, filename=FILES)
    def delete(self, where, filename):
        theirs, ours = self.same("delete_artifact", **where, filename=filename)
        assert theirs == ours

    def teardown(self):
        assert self.ours.store.verify().ok
        self.ours.close()
        self.runner.close()


SameAsInMemory.TestCase.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSameAsInMemory = SameAsInMemory.TestCase


def test_large_artifacts(opened):
    """An artifact of megabytes comes back whole, in each version."""

    async def work():
        with opened(ClewArtifactService) as service:
            where = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "f.bin"}
            for number in range(3):
                data = bytes([number]) * 3_000_000
                part = types.Part(inline_data=types.Blob(mime_type="application/x", data=data))
                assert await service.save_artifact(**where, artifact=part) == number
            for number in range(3):
                part = await service.load_artifact(**where, version=number)
                assert part.inline_data.data == bytes([number]) * 3_000_000
            version = await service.get_artifact_version(**where)
            assert version.canonical_uri == "artifact://apps/a/users/u/sessions/s/artifacts/f.bin/versions/2"

    asyncio.run(work())


def test_artifacts_go_with_their_session(tmp_path):
    """Deleting a session deletes its artifacts without a trace; those of the user stay."""

    async def work():
        with ClewSessionService(tmp_path / "c.db") as sessions:
            service = ClewArtifactService(sessions.store)
            where = {"app_name": "a", "user_id": "u", "session_id": "s"}
            await sessions.create_session(**where)
            await service.save_artifact(**where, filename="x", artifact=types.Part(text="needle"))
            await service.save_artifact(**where, filename="user:x", artifact=types.Part(text="kept"))
            await sessions.delete_session(**where)
            assert await service.load_artifact(**where, filename="x") is None
            assert await service.list_artifact_keys(**where) == ["user:x"]
            assert not [one for one in tmp_path.iterdir() if b"needle" in one.read_bytes()]

    asyncio.run(work())
