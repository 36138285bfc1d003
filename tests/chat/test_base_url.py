"""Which addresses a token may be sent to."""

from __future__ import annotations

import contextlib
import random
import string

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.chat import MAX_BASE_URL_LENGTH, InvalidBaseURL, validate_base_url
from clew.providers.base_url import host_of

ACCEPTED = [
    "",
    "https://api.openai.com",
    "https://api.openai.com/v1",
    "https://proxy.corp.internal:8443/openai/v1?tenant=7",
    "HTTPS://API.OPENAI.COM/v1",
    "https://fooexample.com",
    "https://example-corp.io",
    "https://api.example.co",
    "https://example.community",
    "https://localhost",
    "https://localhost:8443",
    "https://127.0.0.1:8443",
    "https://[::1]:8443/v1",
    "https://[fe80::1%25eth0]/",
    "https://bücher.de",
    "https://xn--bcher-kva.de",
    "https://host.name./v1",
    "https://host/@path",
    "https://host/a?b=c@d#e@f",
    "https://under_score.host",
    "https://host:/v1",
]

REJECTED = {
    "is longer": ["https://a.b/" + "x" * MAX_BASE_URL_LENGTH, "https://a.b/" + "ü" * 1100],
    "has control": [
        "https://a.b\n", "\nhttps://a.b", "https://a.\tb", "https://a.b/\x00", "https://a.b/\x7f", "\x1fhttps://a.b",
        "https://a.b\r\nHost: evil",
    ],
    "does not parse": [
        "https://[::1", "https://a.b:port", "https://a.b:99999", " https://a.b", "https://a.b ", "https://a b.c",
        "https://good.com\\.evil.com", "https://a%2eb.com", "https://a..b", "https://" + "a" * 64 + ".com",
        "https://\ud800.com", "https://a.b/\ud800", "https://[v1.x]/", "https://a.b[::1]", "https://a,b",
        "https://" + "a." * 150, "https://a.b:８０", "https://a\u2100b.com", "https://.",
    ],
    "contains a user name": [
        "https://user@a.b", "https://user:secret@a.b", "https://@a.b", "https://:@a.b", "https://:secret@a.b",
        "http://user:secret@a.b", "ftp://user@a.b",
    ],
    "is not https": [
        "http://a.b", "HTTP://a.b", "ftp://a.b", "file:///etc/passwd", "javascript:alert(1)", "a.b", "//a.b",
        "api.openai.com/v1", "localhost:8080", "httpss://a.b", "ws://a.b", "/v1", "?", "x",
    ],
    "has no host": ["https://", "https:///v1", "https:a.b", "https:/a.b", "https://:443", "https://?x", "https://#x"],
    "is a placeholder": [
        "https://example.com", "https://EXAMPLE.com/v1", "https://example.net", "https://example.org:8443",
        "https://api.example.com", "https://a.b.Example.Org", "https://localhost.localdomain",
        "https://x.localhost.localdomain", "https://example.com.", "https://ｅxample.com", "https://example。com",
        "https://exam\u00adple.com", "https://exa\ufe0fmple.com",
    ],
}  # fmt: skip


@pytest.mark.checklist("A39")
@pytest.mark.parametrize("url", ACCEPTED)
def test_good_addresses_are_accepted(url: str) -> None:
    """A valid address is returned unchanged."""
    assert validate_base_url(url) == url


@pytest.mark.checklist("A37", "A40")
@pytest.mark.parametrize(("why", "url"), [(why, url) for why, urls in REJECTED.items() for url in urls])
def test_bad_addresses_are_rejected(why: str, url: str) -> None:
    """Each rule rejects what it is for, and says which it was without saying the address."""
    with pytest.raises(InvalidBaseURL, match=f"the base URL {why}") as caught:
        validate_base_url(url)
    told = f"{caught.value} {caught.value.hint} {caught.value.args!r}"
    assert "secret" not in told
    assert url not in told or len(url) < 3
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.checklist("A37")
def test_rules_apply_in_order() -> None:
    """An address that breaks several rules is rejected by the first of them."""

    def told(url: str) -> str:
        with pytest.raises(InvalidBaseURL) as caught:
            validate_base_url(url)
        return caught.value.message

    assert "longer" in told("ftp://u:p@\n" + "x" * 3000)
    assert "control" in told("ftp://u:p@[\n")
    assert "parse" in told("ftp://u:p@[")
    assert "user" in told("ftp://u:p@")
    assert "https" in told("ftp://")
    assert "host" in told("https://")


@pytest.mark.parametrize("value", [None, 1, b"https://a.b", ["https://a.b"]])
def test_what_is_not_text_is_rejected(value: object) -> None:
    """Anything but text is no address."""
    with pytest.raises(InvalidBaseURL):
        validate_base_url(value)  # type: ignore[arg-type]


@pytest.mark.checklist("A38")
def test_allow_insecure_relaxes_http_alone() -> None:
    """`allow_insecure` accepts http; every other rule applies."""
    assert validate_base_url("http://127.0.0.1:8080", allow_insecure=True)
    assert validate_base_url("HTTP://localhost", True)
    for why, urls in REJECTED.items():
        for url in urls:
            if why != "is not https" or not url.lower().startswith("http:"):
                with pytest.raises(InvalidBaseURL):
                    validate_base_url(url, allow_insecure=True)
    with pytest.raises(InvalidBaseURL):
        validate_base_url("http://a.b", allow_insecure="yes")  # type: ignore[arg-type]


def test_the_length_is_counted_in_bytes() -> None:
    """The longest address has exactly the limit."""
    longest = "https://a.b/".ljust(MAX_BASE_URL_LENGTH, "x")
    assert validate_base_url(longest) == longest
    with pytest.raises(InvalidBaseURL):
        validate_base_url(longest + "x")


def test_only_the_host_is_told() -> None:
    """Only the host of an address may be logged."""
    assert host_of("https://Proxy.corp.internal:8443/secret?key=1") == "proxy.corp.internal"
    assert host_of("") == ""


PIECES = [
    "https://", "http://", "HTTPS://", "ftp://", "//", "/", "\\", "@", ":", "user", ":pass@", "example.com",
    ".example.org", "localhost", ".localdomain", "api.openai.com", "[", "]", "::1", "%", "%2e", "%00", "?", "#", "=",
    "&", ".", "..", "-", "\n", "\t", "\x00", "\x7f", " ", "\u00a0", "\u2028", "\u3002", "\uff0e", "\u00ad", "\ud800",
    "ü", "例え", "xn--", "🙂", "8080", "99999999", "a" * 70, "x" * 1000, "\u202e", "ß", "İ",
]  # fmt: skip


def test_fuzz() -> None:
    """20,000 strings: nothing is raised but the typed error, and what is accepted keeps every rule."""
    chance = random.Random(20_260_326)
    accepted = 0
    for _ in range(20_000):
        pieces = chance.choices(PIECES, k=chance.randrange(1, 7))
        if chance.random() < 0.3:
            pieces.append("".join(chance.choices(string.printable, k=chance.randrange(8))))
        if chance.random() < 0.5:
            pieces.insert(0, "https://")
        url = "".join(pieces)
        try:
            validate_base_url(url)
        except InvalidBaseURL:
            continue
        accepted += 1
        assert len(url.encode()) <= MAX_BASE_URL_LENGTH
        assert not any(ord(char) < 32 or ord(char) == 127 for char in url)
        assert url.lower().startswith("https://")
        assert host_of(url)
        assert "@" not in url[8:].partition("/")[0].partition("?")[0].partition("#")[0]
    assert accepted > 500


@given(st.text())
def test_any_text_is_accepted_or_rejected(url: str) -> None:
    """There is no third outcome, with and without http."""
    for insecure in (False, True):
        with contextlib.suppress(InvalidBaseURL):
            assert validate_base_url(url, insecure) == url


@given(st.lists(st.sampled_from(PIECES), max_size=5))
def test_the_client_goes_where_the_check_looked(pieces: list[str]) -> None:
    """The HTTP client that the SDKs use reads the same host out of an accepted address, or refuses it."""
    url = "https://" + "".join(pieces)
    try:
        validate_base_url(url)
        host = httpx2.URL(url).host
    except (InvalidBaseURL, httpx2.InvalidURL, UnicodeError):
        return
    assert host.encode("idna").lower() == host_of(url).encode("idna").lower()
