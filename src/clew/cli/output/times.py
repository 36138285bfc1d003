"""Times as people write and read them: parsing options, and formatting."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_RELATIVE = re.compile(
    r"(\d{1,6})\s*(s|m|h|d|w|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?|months?|years?)(?:\s+ago)?"
)
_LONGER = {"mo": 30 * 86400, "ye": 365 * 86400}
"""Months and years, by their first letters."""
_DAYS = {"today": 0, "yesterday": 1}
_LAST = date(9999, 12, 30)
"""The last date whose end exists in every time zone."""


def parse_since(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Parses a time option: ISO 8601, local unless it has a zone, or an age like 2d. A date means its start."""
    return None if value is None else _parse(value.strip())


def parse_until(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """`parse_since`, but a date means its end."""
    return None if value is None else _parse(value.strip(), end=True)


since_option = click.option(
    "--since", callback=parse_since, metavar="TIME",
    help="Only from this time on: a date, yesterday, or an age like 2d, 3h, 2 weeks.",
)  # fmt: skip
until_option = click.option("--until", callback=parse_until, metavar="TIME", help="Only up to this time.")


def _parse(text: str, *, end: bool = False) -> datetime:
    try:
        ago = _RELATIVE.fullmatch(text.lower())
        if ago:
            unit = _LONGER.get(ago[2][:2]) or _UNITS[ago[2][0]]
            return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * unit)
        if text.lower() in _DAYS:
            text = (date.today() - timedelta(days=_DAYS[text.lower()])).isoformat()  # noqa: DTZ011 - the user's day
        return (_end(text) if end else None) or datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        forms = "2026-01-31, 2026-01-31T09:30, yesterday, or an age like 2d, 3h, 2 weeks"
        raise click.BadParameter(f"{text!r} is not a time; use {forms}") from None


def _end(text: str) -> datetime | None:
    """The end of a date in local time (not always 24 hours long); None if `text` is not a date."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    if day >= _LAST:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.combine(day + timedelta(days=1), time()).astimezone(UTC)


def ago(moment: datetime, now: datetime) -> str:
    """The age of `moment` in at most 11 characters; its date after 30 days."""
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
    except (OverflowError, ValueError, OSError):  # year 1 and 9999 may have no local time
        return moment.isoformat(sep=" ", timespec="minutes")[:16]
