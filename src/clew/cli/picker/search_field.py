"""The input field of the picker, which handles every key in the order in which keys arrive.

Textual runs the actions of other keys in another queue than letters: with bindings, Enter would overtake the letters
before it, and letters would overtake Ctrl+U. A paste or a fast typist sends many keys in one burst.
"""

from __future__ import annotations

from textual import events
from textual.widgets import Input

KEYS = {
    "enter": "resume",
    "tab": "scope",
    "ctrl+o": "print",
    "ctrl+n": "new",
    "ctrl+r": "rename",
    "ctrl+t": "label",
    "ctrl+f": "fork",
    "ctrl+d": "trash",
    "delete": "trash",
    "ctrl+z": "undo",
    "up": "move(-1)",
    "down": "move(1)",
    "pageup": "move(-10)",
    "pagedown": "move(10)",
    "escape": "leave",
    "ctrl+c": "quit",
    "ctrl+q": "quit",
}
"""Actions of the picker, by key. They need Ctrl or a key without a letter, so that none happens by accident."""


class SearchField(Input):
    """An input field that runs each key's action before it takes the next key."""

    async def on_key(self, event: events.Key) -> None:
        """Runs the picker's action for a key, or the field's own; letters are inserted by Input itself."""
        if event.key in KEYS:
            actions = [f"app.{KEYS[event.key]}"]
        else:
            actions = [binding.action for binding in self._bindings.key_to_bindings.get(event.key, ())]
        for action in actions:
            event.stop()
            event.prevent_default()
            await self.run_action(action)
