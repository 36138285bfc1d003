"""A conversation: a session, the model that answers in it, and how another takes over. It knows no terminals."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import clew
from clew.chat.events import Event
from clew.cli import models
from clew.cli.interrupts import Interrupts
from clew.cli.models import Choice
from clew.saving import SavingMiddleware, resume

if TYPE_CHECKING:
    from clew.chat.protocols import Prompt
    from clew.convert import Report


class Talk:
    """What a person says goes through `ask`; everything is stored as it happens."""

    def __init__(
        self,
        store: clew.Store,
        choice: Choice,
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
    ) -> None:
        models.refuse_offline(choice, session)
        self.store = store
        self.choice = choice
        self._interrupts = interrupts
        self._system = system
        self._new: dict[str, Any] = {"cwd": cwd, "title": title, "label": label, "parent": parent}
        self._allow_insecure = allow_insecure
        self._at = at
        """The message that the conversation continues from; None for the last answer. Until something is said."""
        self._bare = self._connected(choice)
        self.report = self._go_on(session)

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
        """The answer, in pieces. What cannot be saved is an error, and nothing is sent."""
        self._at = None
        return self._client.stream(prompt)  # type: ignore[no-any-return]

    def use(self, choice: Choice) -> Report | None:
        """Another model continues. The report says what it could not be told as it was. Invalid: nothing changed."""
        models.refuse_offline(choice, self.session)
        bare = self._connected(choice)
        self.close()
        self._bare, self.choice = bare, choice
        report = self._go_on(self.session)
        if self.session is not None:
            self.session.update(model=choice.model or None)
        return report

    def begin(self) -> None:
        """A new session, with the next question."""
        self._bare = self._connected(self.choice)
        self._at = None
        self._go_on(None)

    def fork(self, title: str | None = None) -> clew.Session | None:
        """Goes on in a fork; None if there is nothing yet to fork."""
        session = self.session
        if session is None:
            return None
        made = session.fork(title=title)
        self._at = None
        self._go_on(made)
        return made

    def rewind(self, to: str | None) -> None:
        """Continues from exactly this message, or from before the first; the rest stays as a branch. NotFound."""
        session = self.session
        if session is None:
            raise clew.NotFound("message", to or "", hint="Nothing was said yet.")
        session.rewind(to=to)
        self._at = to
        self._go_on(session)

    def last_question(self) -> clew.Node | None:
        """The last message of the person."""
        session = self.session
        nodes = [] if session is None else session.path()
        return next((node for node in reversed(nodes) if node.role == "user"), None)

    def questions(self) -> list[clew.Node]:
        """What the person said, oldest first."""
        session = self.session
        return [] if session is None else [node for node in session.path() if node.role == "user"]

    def close(self) -> None:
        """Ends the connections to the provider."""
        self._client.close()

    def _go_on(self, session: clew.Session | None) -> Report | None:
        """Puts what the session says before the model."""
        report = None
        if session is not None and hasattr(self._bare, "restore"):
            report = resume(self._bare, session, until=self._at, system=self._system)
        self._saving = SavingMiddleware(
            self.store, session=session, at=self._at, shield=self._interrupts.shield, **self._new
        )
        self._client = self._saving.wrap(self._bare)
        return report

    def _connected(self, choice: Choice) -> Any:
        return models.connect(choice, system=self._system or "", allow_insecure=self._allow_insecure)
