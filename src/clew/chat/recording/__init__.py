"""Records chat clients while they are used: in a session of the store, or as a snapshot.

>>> import clew
>>> from clew import chat
>>> from clew.chat.recording import SavingMiddleware
>>> store = clew.open(":memory:")
>>> saving = SavingMiddleware(store)
>>> client = saving.wrap(chat.connect(provider="offline"))
>>> client.chat("Hello")
'You said: Hello'
>>> [node.text for node in saving.session.path()]
['Hello', 'You said: Hello']

A question is stored before it is sent, and each step of the answer before the caller gets it. If the program is
killed, the store has the question and every tool call that ran. A partial answer is stored with
``{"interrupted": true}`` in its free data. `autosave` saves a client as a snapshot instead.
"""

from clew.chat.recording.clients import AsyncSavedClient, SavedClient, autosave
from clew.chat.recording.middleware import SavingMiddleware
from clew.chat.recording.resuming import latest_answered, resume, through_last_answer

__all__ = [
    "AsyncSavedClient",
    "SavedClient",
    "SavingMiddleware",
    "autosave",
    "latest_answered",
    "resume",
    "through_last_answer",
]
