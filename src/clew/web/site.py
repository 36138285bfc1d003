"""What the routes share: the open store or its lock, the templates, the cache of rendered messages."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from clew import keys
from clew.errors import ClewError, Closed, NotFound, Sealed, WrongKey
from clew.exports.render.message import VERSION
from clew.exports.to_html import style
from clew.keys import Key
from clew.providers.prices import Prices
from clew.store.session import Session
from clew.store.store import Store
from clew.web.listing import Filters
from clew.web.secrets import SecretFinder
from clew.web.usage import UsageCache

KEPT = 1_000
"""Names that a server keeps. A page has up to 200: one for each filter beside the list."""
LONGEST = 1_000
"""Characters of a text that has a name; more cannot be typed."""
MARK = "~"
"""Begins a name. Other text in a URL is words: programs may send them."""


class WordNames:
    """Random names of texts, new at each start. The least recently used one is forgotten first."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        """The name of each text, the most recently used last."""
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()

    def name(self, text: str) -> str:
        """The name of a text; the empty text has none."""
        text = text[:LONGEST]
        if not text:
            return ""
        with self._lock:
            name = self._names.setdefault(text, MARK + token_urlsafe(12))
            self._names.move_to_end(text)
            self._texts[name] = text
            if len(self._names) > KEPT:
                del self._texts[self._names.popitem(last=False)[1]]
        return name

    def text(self, given: str) -> str:
        """The text of a name; empty if the name is unknown. Words are returned as they are."""
        if not given.startswith(MARK):
            return given
        with self._lock:
            text = self._texts.get(given, "")
            if text:
                self._names.move_to_end(text)
        return text

    def clear(self) -> None:
        """Forgets all names."""
        with self._lock:
            self._names.clear()
            self._texts.clear()


IDLE = 15 * 60
"""Seconds without a request after which a store that was unlocked on the page locks again."""
CACHED = 4_000
"""Messages whose HTML is kept."""
CACHED_BYTES = 32 << 20
FRESH = 10 * 60
"""Seconds that the HTML of a message is kept: what was purged must not stay in memory for long."""
_NAMED = {"q", "find", *Filters._fields}
"""Values of a URL that are words, or come from what is stored."""
_SCRIPTS = ("theme.js", "clew.js", "conversation.js", "live.js", "write.js")
"""In this order: a module imports only those before it."""

Opener = Callable[[Key | None], Store]
"""Opens the store with the key that was typed on the page, or with that of the command line."""


class Locked(Exception):
    """The store is sealed and not unlocked."""


class Asset(NamedTuple):
    """A static file: its name with a hash, its bytes and its type."""

    name: str
    body: bytes
    type: str


class Site:
    """The state of a server. Routes run on several threads."""

    def __init__(
        self,
        opener: Opener,
        *,
        page_token: Callable[[], str],
        allow_write: bool = False,
        prices: Prices | None = None,
        idle: float = IDLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opener = opener
        self._store: Store | None = None
        self._sealed = False
        self._names = WordNames()
        self._typed = False
        """Whether the key was typed on the page."""
        self._used = clock()
        self._clock = clock
        self._idle = idle
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._indexed: int | None = None
        """Percent of the messages in the search index, while it is updated."""
        self.page_token = page_token
        self.allow_write = allow_write
        self.assets = _assets()
        self.rendered = Cache(clock)
        self.secrets = SecretFinder()
        self.usage = UsageCache(prices or Prices())

    @property
    def store(self) -> Store:
        """The open store. Locked if it needs a key that was not given."""
        with self._lock:
            if self._typed and self._clock() - self._used > self._idle:
                self.lock()
            self._used = self._clock()
            if self._store is None:
                try:
                    self._store = self._opener(None)
                except WrongKey:
                    raise
                except Sealed:
                    raise Locked from None
                self._index(self._store)
            return self._store

    @property
    def is_sealed(self) -> bool:
        """True if the store is sealed, also after it was locked. False before it was opened.

        Browsers keep the titles and URLs of pages on disk: those of a sealed store have no titles and no words.
        """
        store = self._store
        if store is not None:
            self._sealed = store.sealed
        return self._sealed

    def url_words(self, words: str) -> str:
        """Words as a URL has them: a name for them if the store is sealed."""
        return self._names.name(words) if self.is_sealed else words

    def link(self, url: str) -> str:
        """A URL with its words named."""
        path, _, query = url.partition("?")
        values = [(key, self.url_words(value) if key in _NAMED else value) for key, value in parse_qsl(query)]
        return f"{path}?{urlencode(values)}" if values else path

    def query(self, given: Mapping[str, str]) -> dict[str, str]:
        """The query of a URL with its words; those of an unknown name are empty. Locked."""
        _ = self.store  # whether it is sealed is known once it is open
        return {key: self._names.text(value) if self.is_sealed and key in _NAMED else value
                for key, value in given.items()}  # fmt: skip

    @property
    def can_lock(self) -> bool:
        """True if the store was unlocked on the page."""
        return self._typed

    def locks_in(self) -> float | None:
        """Seconds until a store that was unlocked on the page locks; 0 if it is locked, None if it never locks.

        Asking does not count as use.
        """
        with self._lock:
            if self._typed:
                return max(0.0, self._idle - (self._clock() - self._used))
            return None if self._store is not None else 0.0

    def unlock(self, key: Key) -> None:
        """Opens the store with this key. WrongKey, Invalid."""
        with self._lock:
            opened = self._opener(key)
            if self._store is not None:
                opened.close()
                return
            self._store, self._typed, self._used = opened, True, self._clock()
            self._arm(self._idle)
            self._index(opened)

    def lock(self) -> None:
        """Closes a store that was unlocked on the page, and forgets everything read from it."""
        with self._lock:
            if self._typed:
                self.close()
                self._typed = False

    def close(self) -> None:
        """Closes the store. Idempotent."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self.rendered.clear()
            self._names.clear()
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def end(self) -> None:
        """Makes long requests stop, because the server ends: see `still_open`."""
        self._ending.set()

    def still_open(self, *_: int) -> None:
        """Raises Closed once the server ends. Long work calls it now and then."""
        if self._ending.is_set():
            raise Closed("the server ends")

    def note_progress(self, done: int, total: int) -> None:
        """Keeps how far the index is, for pages that wait for it. Closed once the server ends."""
        self.still_open()
        self._indexed = 100 * done // max(1, total)

    def search_done(self) -> None:
        """The index is up to date."""
        self._indexed = None

    def state(self) -> dict[str, Any]:
        """What an open page asks for now and then, which does not count as use of the store."""
        return {"locks_in": self.locks_in(), "indexed": self._indexed, "list": self.list_stamp()}

    def list_stamp(self) -> str:
        """Text that changes with the list of conversations; empty while the store is not open."""
        store = self._store
        if store is None:
            return ""
        try:
            page = store.sessions.list(limit=1, total=True)
        except ClewError:
            return ""
        return f"{page.total}:{''.join(f'{one.id}:{one.version}' for one in page.items)}"

    def session(self, key: str) -> Session:
        """A session by id or handle. NotFound; Ambiguous."""
        try:
            return self.store.sessions.get(key)
        except NotFound:
            self.rendered.forget(key)
            raise

    def asset_url(self, name: str) -> str:
        """The URL of a static file."""
        return f"/static/{self.assets[name].name}"

    def asset(self, name: str) -> Asset:
        """A static file by its name with the hash. NotFound."""
        for one in self.assets.values():
            if one.name == name:
                return one
        raise NotFound("file", name)

    def _index(self, store: Store) -> None:
        """Updates the search index of a newly opened store, so that the first search does not wait for it."""

        def work() -> None:
            with suppress(ClewError):
                store.search("clew", limit=1, newest=True, progress=self.note_progress)
            self.search_done()

        threading.Thread(target=work, name="clew-index", daemon=True).start()

    def _arm(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._check)
        self._timer.daemon = True
        self._timer.start()

    def _check(self) -> None:
        with self._lock:
            left = self._idle - (self._clock() - self._used)
            if not self._typed:
                return
            if left <= 0:
                self.lock()
            else:
                self._arm(left)


class Cache:
    """HTML of messages, the most recently used last. Bounded in number, bytes and time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._items: OrderedDict[Any, tuple[float, Any, str]] = OrderedDict()
        """The time, the state that it was made from, and the HTML. The first part of a key is the id of a session."""
        self._made: deque[tuple[float, Any]] = deque()
        """When each was made, oldest first; also of some that are no longer kept."""
        self._size = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def get(self, key: tuple[Any, ...], state: Any, make: Callable[[], str]) -> str:
        """The HTML under this key, made again if it is missing or was made from another state."""
        state, now = (VERSION, state), self._clock()
        with self._lock:
            self._expire(now)
            found = self._items.get(key)
            if found is not None and found[1] == state:
                self._items.move_to_end(key)
                return found[2]
        html = make()
        with self._lock:
            self._drop(key)
            self._items[key] = now, state, html
            self._made.append((now, key))
            if len(self._made) > 2 * CACHED:
                kept = ((at, one) for one, (at, _, _) in self._items.items())
                self._made = deque(sorted(kept, key=lambda pair: pair[0]))
            self._size += len(html)
            self._arm()
            while self._items and (len(self._items) > CACHED or self._size > CACHED_BYTES):
                self._drop(next(iter(self._items)))
        return html

    def forget(self, session: str) -> None:
        """Forgets the messages of a session, which may have been purged."""
        with self._lock:
            for key in [key for key in self._items if key[0] == session]:
                self._drop(key)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._items.clear()
            self._made.clear()
            self._size = 0

    def __len__(self) -> int:
        return len(self._items)

    def _arm(self) -> None:
        """Forgets what is old also while nobody asks."""
        if self._timer is None and self._items:
            self._timer = threading.Timer(FRESH + 1, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _tick(self) -> None:
        with self._lock:
            self._timer = None
            self._expire(self._clock())
            self._arm()

    def _expire(self, now: float) -> None:
        while self._made and now - self._made[0][0] > FRESH:
            at, key = self._made.popleft()
            if self._items.get(key, (None,))[0] == at:
                self._drop(key)

    def _drop(self, key: Any) -> None:
        found = self._items.pop(key, None)
        self._size -= 0 if found is None else len(found[2])


def typed_key(text: str) -> Key:
    """A key as people type it: the key itself, as hex, base64 or a recovery key; else a passphrase. Invalid."""
    from binascii import a2b_base64, unhexlify

    words = text.strip()
    with suppress(ClewError):
        return keys.from_recovery(words)
    with suppress(ValueError):
        found = unhexlify(words) if len(words) == 2 * keys.SIZE else a2b_base64(words, strict_mode=True)
        if len(found) == keys.SIZE:
            return found
    return keys.from_passphrase(text)


def _assets() -> dict[str, Asset]:
    found = {"clew.css": _asset("clew.css", style().encode(), "text/css")}
    folder = files("clew.web").joinpath("static")
    for name in _SCRIPTS:
        body = folder.joinpath(name).read_bytes()
        for other, made in found.items():  # modules import each other by the names with the hash
            body = body.replace(f"@{other}@".encode(), made.name.encode())
        found[name] = _asset(name, body, "text/javascript")
    return found


def _asset(name: str, body: bytes, kind: str) -> Asset:
    stem, _, end = name.rpartition(".")
    return Asset(f"{stem}.{sha256(body).hexdigest()[:12]}.{end}", body, f"{kind}; charset=utf-8")
