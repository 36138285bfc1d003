"""The artifact service of ADK: ``Runner(…, artifact_service=ClewArtifactService("chats.db"))``.

An artifact is a document, and each version an entry of its log. Artifacts of a session that the store has are deleted
with it.
"""

from __future__ import annotations

from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from clew.adapters.google_adk.service import Service, labels
from clew.adapters.threads import in_thread
from clew.store.unit import Unit

USER_PREFIX = "user:"
DEPTH = 5
"""Artifacts may refer to artifacts: how many references one call follows, as in ADK's own services."""
REMOVED = (types.Part(), types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b"")))
"""An empty artifact: a rewind of ADK saves it to remove an artifact, and `load_artifact` returns None for it."""


class ClewArtifactService(Service, BaseArtifactService):
    """Artifacts in a store. See `Service` for the arguments."""

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        names = _names(app_name, user_id, filename, session_id)
        part = ensure_part(artifact)
        mime = _check(part, app_name, user_id, session_id)
        return await in_thread(self._save, names, part, mime, custom_metadata or {})

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        return await in_thread(self._load, app_name, user_id, filename, session_id, version, DEPTH)

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        _validate(app_name, user_id, session_id)
        return await in_thread(self._list, app_name, user_id, session_id)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        await in_thread(self._documents.purge, *_names(app_name, user_id, filename, session_id))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        return list(range(len(await in_thread(self._versions, _names(app_name, user_id, filename, session_id)))))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        found = await in_thread(self._versions, _names(app_name, user_id, filename, session_id))
        return [ArtifactVersion.model_validate(one) for one in found]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        found = await in_thread(self._versions, _names(app_name, user_id, filename, session_id))
        number = _number(version, len(found))
        return None if number is None else ArtifactVersion.model_validate(found[number])

    # -- on a thread

    def _save(self, names: tuple[str, ...], part: types.Part, mime: str | None, metadata: dict[str, Any]) -> int:
        _, app, user, session, filename = names
        data = part.model_dump_json(exclude_none=True).encode()
        group = ("artifacts", app, user, session)

        def work(unit: Unit) -> int:
            value = self._documents.value(self._documents.get(unit, *names), {"name": filename, "versions": []})
            version = len(value["versions"])
            uri = artifact_util.get_artifact_uri(app, user, filename, version, session or None)
            about = ArtifactVersion(version=version, canonical_uri=uri, custom_metadata=metadata, mime_type=mime)
            value["versions"].append(about.model_dump(mode="json", exclude_none=True))
            owner = self._keyed.session(unit, app, user, session) if session else None
            document = self._documents.put(
                unit, names, value, groups=[group], owner=owner, labels=labels(app, user)[-1:]
            )
            self._documents.add_entry(unit, document, data)
            return version

        return self._keyed.write(work)

    def _load(
        self, app: str, user: str, filename: str, session: str | None, version: int | None, depth: int
    ) -> types.Part | None:
        found = self._documents.find(*_names(app, user, filename, session))
        number = _number(version, len(self._documents.value(found, {"versions": []})["versions"]))
        if found is None or number is None:
            return None
        part = types.Part.model_validate_json(self._documents.entry(found, number))
        if artifact_util.is_artifact_ref(part):
            assert part.file_data is not None
            target = artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri or "",
                app_name=app,
                user_id=user,
                session_id=session,
                remaining_depth=depth,
            )
            return self._load(
                target.app_name, target.user_id, target.filename, target.session_id, target.version, depth - 1
            )
        return None if part in REMOVED else part

    def _list(self, app: str, user: str, session: str | None) -> list[str]:
        groups = [("artifacts", app, user, "")] + ([("artifacts", app, user, session)] if session else [])
        return sorted(self._documents.value(one)["name"] for group in groups for one in self._documents.group(*group))

    def _versions(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._documents.value(self._documents.find(*names), {"versions": []})["versions"]
        return found


def _validate(app: str, user: str, session: str | None) -> None:
    artifact_util.validate_path_segment(app, "app_name")
    artifact_util.validate_path_segment(user, "user_id")
    if session is not None:
        artifact_util.validate_path_segment(session, "session_id")


def _names(app: str, user: str, filename: str, session: str | None) -> tuple[str, ...]:
    """The names of an artifact; a user's own has no session. InputValidationError."""
    if filename.startswith(USER_PREFIX):
        _validate(app, user, None)
        return ("artifact", app, user, "", filename)
    if session is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    _validate(app, user, session)
    return ("artifact", app, user, session, filename)


def _check(part: types.Part, app: str, user: str, session: str | None) -> str | None:
    """The MIME type of an artifact, if it has one. InputValidationError if it cannot be an artifact."""
    mime: str | None
    if part.inline_data is not None:
        mime = part.inline_data.mime_type
        return mime
    if part.text is not None:
        return "text/plain"
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not artifact_util.is_artifact_ref(part):
        mime = part.file_data.mime_type
        return mime
    target = artifact_util.parse_artifact_uri(part.file_data.file_uri or "")
    if target is None:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    artifact_util.validate_artifact_reference_scope(app_name=app, user_id=user, session_id=session, parsed_uri=target)
    return None


def _number(version: int | None, count: int) -> int | None:
    """The number of a version, by default the last; None if there is no such version."""
    number = count - 1 if version is None else version
    return number if 0 <= number < count else None
