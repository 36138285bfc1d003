"""Times as people write and read them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_RELATIVE = re.compile(r"(\d{1,6})\s*([smhdw])")
_LAST = date(9999, 12, 30)
"""After this one a calendar has no end of the day in every zone."""


def since(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """The time an option means: ISO, local unless it says its zone, or how long ago. Of a date its first moment."""
    return None if value is None else _read(value.strip())


def until(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """The same; of a date its end."""
    return None if value is None else _read(value.strip(), end=True)


def _read(text: str, *, end: bool = False) -> datetime:
    try:
        ago = _RELATIVE.fullmatch(text.lower())
        if ago:
            return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        return (_end(text) if end else None) or datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        means = "2026-01-31, 2026-01-31T09:30, or 2d, 3h, 15m for how long ago"
        raise click.BadParameter(f"{text!r} is not a time: write {means}") from None


def _end(text: str) -> datetime | None:
    """The end of a date here, which is not always 24 hours after it began; None if it is no date alone."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    if day >= _LAST:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.combine(day + timedelta(days=1), time()).astimezone(UTC)


def ago(moment: datetime, now: datetime) -> str:
    """How long ago `moment` was, in at most 11 letters; the date once that says more."""
    seconds = (now - moment).total_seconds()
    if seconds < -60 or seconds >= 30 * 86400:
        return local(moment)[:10]
    if seconds < 45:
        return "just now"
    for size, limit, name in ((60, 3600, "min"), (3600, 86400, "hour"), (86400, 30 * 86400, "day")):
        if seconds < limit - size / 2:
            count = max(1, round(seconds / size))
            return f"{count} {name}{'s' if count > 1 and name != 'min' else ''} ago"
    return local(moment)[:10]


def local(moment: datetime) -> str:
    """Date and minute in local time."""
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # at the ends of time there is no local time
        return moment.isoformat(sep=" ", timespec="minutes")[:16]
