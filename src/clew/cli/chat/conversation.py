"""A chat: a session, its model, and the switch to another model. Independent of the terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import clew
from clew.agents.cpe import CpeFile, CpeView
from clew.chat.protocols import Event
from clew.chat.recording import SavingMiddleware, resume
from clew.cli.chat import models
from clew.cli.chat.interrupts import Interrupts
from clew.cli.chat.models import ModelChoice

if TYPE_CHECKING:
    from clew.chat.protocols import Prompt
    from clew.convert import Report


class ChatSession:
    """A session connected to a model. `ask` stores questions and answers as they arrive."""

    def __init__(
        self,
        store: clew.Store,
        choice: ModelChoice,
        interrupts: Interrupts,
        *,
        session: clew.Session | None = None,
        system: str | None = None,
        cwd: str | None = None,
        title: str | None = None,
        label: str | None = None,
        parent: clew.Session | None = None,
        at: str | None = None,
        allow_insecure: bool = False,
        saver: CpeSaver | None = None,
    ) -> None:
        models.refuse_offline(choice, session)
        self.store = store
        self.choice = choice
        self._interrupts = interrupts
        self.saver = saver
        """Writes each message to a CPE file, before anything is sent; an error ends the turn."""
        self._system = system
        self._new: dict[str, Any] = {"cwd": cwd, "title": title, "label": label, "parent": parent}
        self._allow_insecure = allow_insecure
        self._at = at
        """The message to continue at; None for the last answer. Reset by `ask`."""
        self._bare = self._connect(choice)
        self.report = self._load(session)

    @property
    def session(self) -> clew.Session | None:
        """The session; None before the first question of a new one."""
        session = self._saving.session
        return session if session is None else session.refresh()

    @property
    def client(self) -> Any:
        """The model's client."""
        return self._client

    def ask(self, prompt: Prompt) -> Generator[Event, None, None]:
        """The answer as events. If the question cannot be stored, it raises an error and sends nothing."""
        self._at = None
        return self._client.stream(prompt)  # type: ignore[no-any-return]

    def use(self, choice: ModelChoice) -> Report | None:
        """Switches to another model. The report lists what could not be converted. Invalid: nothing changed."""
        models.refuse_offline(choice, self.session)
        bare = self._connect(choice)
        self.close()
        self._bare, self.choice = bare, choice
        report = self._load(self.session)
        if self.session is not None:
            self.session.update(model=choice.model or None)
        return report

    def begin(self) -> None:
        """Starts a new session with the next question."""
        self._bare = self._connect(self.choice)
        self._at = None
        self._load(None)

    def fork(self, title: str | None = None) -> clew.Session | None:
        """Continues in a fork; None if there is no session yet."""
        session = self.session
        if session is None:
            return None
        made = session.fork(title=title)
        self._at = None
        self._load(made)
        return made

    def rewind(self, to: str | None) -> None:
        """Continues at a message, or before the first; later messages stay as a branch. NotFound."""
        session = self.session
        if session is None:
            raise clew.NotFound("message", to or "", hint="The conversation has no messages yet.")
        session.rewind(to=to)
        self._at = to
        self._load(session)

    def last_question(self) -> clew.Node | None:
        """The last user message."""
        session = self.session
        nodes = [] if session is None else session.path()
        return next((node for node in reversed(nodes) if node.role == "user"), None)

    def questions(self) -> list[clew.Node]:
        """The user messages, oldest first."""
        session = self.session
        return [] if session is None else [node for node in session.path() if node.role == "user"]

    def close(self) -> None:
        """Closes the connections to the provider."""
        self._client.close()

    def _load(self, session: clew.Session | None) -> Report | None:
        """Loads a session into the client."""
        report = None
        if session is not None and hasattr(self._bare, "restore"):
            report = resume(self._bare, session, until=self._at, system=self._system)
        self._saving = SavingMiddleware(self.store, session=session, at=self._at, shield=self._shield, **self._new)
        self._client = self._saving.wrap(self._bare)
        return report

    @contextmanager
    def _shield(self) -> Iterator[None]:
        with self._interrupts.shield():
            yield
            if self.saver is not None:
                self.saver.save(self._saving.session)

    def _connect(self, choice: ModelChoice) -> Any:
        return models.connect(choice, system=self._system or "", allow_insecure=self._allow_insecure)


class CpeSaver:
    """Writes what a chat stores in the view of a file to the file."""

    def __init__(self, file: CpeFile, view: CpeView) -> None:
        self.file = file
        self.store = view.store
        self.last: str | None = None
        """The id in the file of the last message that was written."""
        self._ids: dict[str, str] = {node: id for id, node in view.ids.items()}

    def save(self, session: clew.Session) -> None:
        """Writes the messages of the session that are not in the file, in one transaction."""
        nodes = session.path()
        known = next((at for at in reversed(range(len(nodes))) if nodes[at].id in self._ids), -1)
        new = nodes[known + 1 :]
        saved = self.file.save(session, new, parent=self._ids[nodes[known].id] if known >= 0 else None)
        for node, id in zip(new, saved, strict=True):
            if id is not None:
                self._ids[node.id] = self.last = id
