"""Keeping what a chat client says and hears, as it happens.

>>> import clew
>>> from clew import chat
>>> from clew.saving import SavingMiddleware
>>> store = clew.open(":memory:")
>>> saving = SavingMiddleware(store)
>>> client = saving.wrap(chat.connect(provider="offline"))
>>> client.chat("Hello")
'You said: Hello'
>>> [node.text for node in saving.session.path()]
['Hello', 'You said: Hello']

A question is stored before it is sent, and each step of the answer before it is handed over. So whatever happens to
the program, the question is there, and so is every tool call that was run. What had arrived of an answer that was
interrupted is kept, with ``{"interrupted": true}`` in its free data.
"""

from clew.saving.middleware import AsyncSavedClient, SavedClient, SavingMiddleware
from clew.saving.resuming import answered, latest_answered, resume

__all__ = ["AsyncSavedClient", "SavedClient", "SavingMiddleware", "answered", "latest_answered", "resume"]
