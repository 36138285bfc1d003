"""Keeps the addresses of requests out of the logs of the libraries that send them.

httpx writes the whole address of each request at INFO. Its path and query may identify someone.
"""

from __future__ import annotations

import logging

from clew.providers.base_url import ascii_host

_LOGGERS = ("httpx", "httpx2")


class _Unlogged(logging.Filter):
    """Drops the records that name an address at one host."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def filter(self, record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        return not any("://" in (text := str(one)) and ascii_host(text) == self.host for one in given)


def keep_unlogged(base_url: str) -> None:
    """Stops the libraries from logging requests to the host of this address, for the whole process."""
    host = ascii_host(base_url)
    for logger in map(logging.getLogger, _LOGGERS):
        if host and not any(isinstance(one, _Unlogged) and one.host == host for one in logger.filters):
            logger.addFilter(_Unlogged(host))
