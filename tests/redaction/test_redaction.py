"""Redaction: what the rules find, what they leave alone, and that nothing goes around them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew import redaction
from clew.providers.neutral import encode
from clew.redaction import NOTE, PERSONAL, Rule, Rules, annotation, builtin, redact
from clew.redaction.linear import TimeBudget
from clew.redaction.rules import VIEW, luhn
from clew.snapshots import Messages, ToolSnapshot, new_snapshot

# Made here and not written out, so that no scanner takes this file for a leak.
HEX, ALNUM, UPPER, DIGITS = "0a1b2c3d4e5f6789", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z", "AB2CD3EF4GH5JK6L", "1029384756"


def of(alphabet: str, length: int) -> str:
    return (alphabet * (length // len(alphabet) + 1))[:length]


def hexa(length: int) -> str:
    return of(HEX, length)


def alnum(length: int) -> str:
    return of(ALNUM, length)


PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----"
BODY = "\n".join(alnum(64) for _ in range(5))
GITHUB = "ghp_" + alnum(36)
CARD = "4111 1111 1111 1111"

TRUE: dict[str, list[str]] = {
    "aws-access-key": ["AKIA" + of(UPPER, 16), "ASIA" + of(UPPER, 16)],
    "aws-secret-key": [alnum(40)],
    "aws-session-token": ["IQoJb3JpZ2luX2Vj" + alnum(300), "FwoGZXIvYXdz" + alnum(100)],
    "aws-bedrock-key": ["ABSKQmVkcm9ja0FQSUtleS" + alnum(100) + "="],
    "google-api-key": ["AIza" + alnum(35)],
    "google-oauth": ["GOCSPX-" + alnum(28), "ya29." + alnum(60), "1//0" + alnum(60)],
    "azure-storage-key": [alnum(86) + "=="],
    "azure-shared-access-key": [alnum(43) + "="],
    "azure-shared-access-signature": [alnum(43) + "%3D"],
    "azure-client-secret": ["aB38Q~" + alnum(34)],
    "digitalocean-token": ["dop_v1_" + hexa(64)],
    "databricks-token": ["dapi" + hexa(32)],
    "heroku-key": ["HRKU-AA" + alnum(58)],
    "hashicorp-token": ["hvs." + alnum(95), alnum(14) + ".atlasv1." + alnum(67)],
    "github-token": [GITHUB, "gho_" + alnum(36), "github_pat_" + alnum(22) + "_" + alnum(59)],
    "gitlab-token": ["glpat-" + alnum(20), "glrt-" + alnum(20), "glpat-" + alnum(27) + ".01.0z1abcdef"],
    "npm-token": ["npm_" + alnum(36)],
    "pypi-token": ["pypi-AgEIcHlwaS5vcmc" + alnum(120)],
    "rubygems-key": ["rubygems_" + hexa(48)],
    "docker-token": ["dckr_pat_" + alnum(27)],
    "atlassian-token": ["ATATT3" + alnum(180) + "=0A1B2C3D"],
    "anthropic-key": ["sk-ant-api03-" + alnum(93) + "AA", "sk-ant-oat01-" + alnum(80)],
    "openai-key": [
        "sk-" + alnum(20) + "T3BlbkFJ" + alnum(20),
        "sk-proj-" + alnum(74) + "T3BlbkFJ" + alnum(74),
        "sk-" + alnum(48),
    ],
    "model-provider-key": ["sk-or-v1-" + hexa(64), "gsk_" + alnum(52), "hf_" + alnum(34), "xai-" + alnum(80)],
    "slack-token": [
        "xoxb-" + of(DIGITS, 12) + "-" + of(DIGITS, 12) + "-" + alnum(24),
        "xapp-1-A0B1-" + of(DIGITS, 12) + "-" + hexa(64),
    ],
    "webhook": ["T" + of(UPPER, 9) + "/B" + of(UPPER, 9) + "/" + alnum(24)],
    "stripe-key": ["sk_live_" + alnum(24), "rk_test_" + alnum(40), "whsec_" + alnum(32)],
    "square-token": ["sq0atp-" + alnum(22)],
    "shopify-token": ["shpat_" + hexa(32)],
    "twilio-key": ["SK" + hexa(32)],
    "sendgrid-key": ["SG." + alnum(22) + "." + alnum(43)],
    "mail-service-key": ["key-" + hexa(32), hexa(32) + "-us12", "xkeysib-" + hexa(64) + "-" + alnum(16)],
    "telegram-token": [of(DIGITS, 10) + ":AA" + alnum(33)],
    "notion-token": ["ntn_" + of(DIGITS, 11) + alnum(35)],
    "linear-key": ["lin_api_" + alnum(40)],
    "figma-token": ["figd_" + alnum(40)],
    "supabase-token": ["sbp_" + hexa(40)],
    "grafana-token": ["glsa_" + alnum(32) + "_" + hexa(8)],
    "sentry-token": ["sntrys_" + alnum(100), "sntryu_" + hexa(64)],
    "postman-key": ["PMAK-" + hexa(24) + "-" + hexa(34)],
    "new-relic-key": ["NRAK-" + of(UPPER, 27)],
    "planetscale-token": ["pscale_tkn_" + alnum(43)],
    "doppler-token": ["dp.pt." + alnum(43)],
    "one-password-token": ["ops_eyJ" + alnum(250)],
    "json-web-token": ["eyJ" + alnum(20) + ".eyJ" + alnum(60) + "." + alnum(43)],
    "private-key": [
        PEM.format("RSA ", BODY),
        PEM.format("", BODY).replace("\n", "\\n"),
        PEM.format("ENCRYPTED ", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n" + BODY),
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + BODY + "\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
    "age-key": ["AGE-SECRET-KEY-1" + of(UPPER, 58)],
    "connection-string": ["hunter2", "p%40ss:w!rd"],
    "connection-password": ["S3cret!pass"],
    "authorization-header": ["dXNlcjpwYXNz", alnum(40)],
    "api-key-header": [alnum(32)],
    "bearer-token": [alnum(40)],
    "card-number": [
        CARD, "4111111111111111", "5500-0055-5555-5559", "378282246310005", "3782 822463 10005", "30569309025904",
    ],
    "email": ["ada.lovelace+x@mail.example.co.uk"],
    "phone": ["+14155552671", "+49 30 123456", "(415) 555-2671", "415-555-2671"],
}  # fmt: skip
"""For each rule, values that it finds."""

AMONG: dict[str, str] = {
    "aws-secret-key": 'aws_secret_access_key = "{}"',
    "azure-storage-key": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "azure-shared-access-key": "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKey={}",
    "azure-shared-access-signature": "https://a.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sig={}",
    "webhook": "https://hooks.slack.com/services/{}",
    "connection-string": "postgresql://ada:{}@db.example.com:5432/app",
    "connection-password": "Server=db;Database=app;User Id=ada;Password={};Encrypt=true",
    "authorization-header": "curl -H 'Authorization: Basic {}' https://example.com",
    "api-key-header": '"X-Api-Key": "{}"',
    "bearer-token": "send it as Bearer {} please",
}
"""What a rule needs around a value to know it."""

FALSE: dict[str, list[str]] = {
    "aws-access-key": ["AKIA" + of(UPPER, 12), "XAKIA" + of(UPPER, 16), "AKIA" + of(UPPER, 20)],
    "aws-secret-key": [alnum(40), "aws_secret_access_key = $SECRET", "aws_secret = " + hexa(64)],
    "aws-session-token": ["IQoJb3JpZ2luX2Vj"],
    "aws-bedrock-key": ["ABSKQmVkcm9ja0FQSUtleS"],
    "google-api-key": ["AIza is how they begin", "AIza" + alnum(20)],
    "google-oauth": ["GOCSPX-short", "ya29.", "http://1//0"],
    "azure-storage-key": ["AccountKey=<your key>", alnum(86) + "=="],
    "azure-shared-access-key": ["SharedAccessKeyName=RootManageSharedAccessKey"],
    "azure-shared-access-signature": ["?sig=abc", "design=" + alnum(43) + "="],
    "azure-client-secret": ["~" * 40, "1Q~" + alnum(10)],
    "digitalocean-token": ["dop_v1_" + hexa(20)],
    "databricks-token": ["dapi", "dapi" + hexa(40)],
    "heroku-key": ["HRKU-AA"],
    "hashicorp-token": ["hvs.short", "app.atlasv1.x"],
    "github-token": ["ghp_" + alnum(20), "github_pat_" + alnum(22), "ghx_" + alnum(36)],
    "gitlab-token": ["glpat-short", "aglpat-" + alnum(20)],
    "npm-token": ["npm_config_registry", "npm_" + alnum(30)],
    "pypi-token": ["pypi-AgE", "pypi-" + alnum(60)],
    "rubygems-key": ["rubygems_version"],
    "docker-token": ["dckr_pat_"],
    "atlassian-token": ["ATATT3" + alnum(20)],
    "anthropic-key": ["sk-ant-", "sk-ant-api03-…"],
    "openai-key": ["sk-proj-", "task-" + alnum(48), "sk-learn-is-not-a-key"],
    "model-provider-key": ["hf_hub_download", "sk-" + hexa(20), "r8_short", "gsk_"],
    "slack-token": ["xoxo-hugs-and-kisses", "xoxb-", "xapp-"],
    "webhook": ["https://hooks.slack.com/services/…", "https://discord.com/api/webhooks/"],
    "stripe-key": ["sk_live_", "pk_live_" + alnum(24), "risk_test_" + alnum(24)],
    "square-token": ["sq0atp-"],
    "shopify-token": ["shpat_" + hexa(10)],
    "twilio-key": ["SK" + hexa(20), "TASK" + hexa(32)],
    "sendgrid-key": ["SG.1.2", "MSG." + alnum(22) + "." + alnum(43)],
    "mail-service-key": ["key-value", hexa(32), "monkey-" + hexa(32)],
    "telegram-token": ["12:34:AA", "10293847:AAA"],
    "notion-token": ["ntn_" + alnum(10)],
    "linear-key": ["lin_api_key"],
    "figma-token": ["figd_"],
    "supabase-token": ["sbp_" + hexa(10)],
    "grafana-token": ["glsa_" + alnum(10)],
    "sentry-token": ["sntrys_"],
    "postman-key": ["PMAK-1-2"],
    "new-relic-key": ["NRAK-1"],
    "planetscale-token": ["pscale_tkn_"],
    "doppler-token": ["dp.pt.x", "udp.pt." + alnum(10)],
    "one-password-token": ["ops_eyJ"],
    "json-web-token": ["eyJ" + alnum(20), "eyJ.eyJ.x", "eyJ" + alnum(20) + "." + alnum(20)],
    "private-key": [
        PEM.format("RSA ", BODY).replace("PRIVATE", "PUBLIC"),
        "a file that begins with -----BEGIN PRIVATE KEY----- and goes on",
        "-----BEGIN PRIVATE KEY-----…-----END PRIVATE KEY-----",
    ],
    "age-key": ["AGE-SECRET-KEY-1"],
    "connection-string": [
        "https://example.com:8080/a@b", "postgresql://ada@db/app", "postgresql://ada:${PASSWORD}@db/app",
        "postgresql://ada:<password>@db/app", "ssh://git@github.com:22/x",
    ],
    "connection-password": ["Password=hunter2", "Server=db;Password=${PW}", "server=a; the password is secret"],
    "authorization-header": ["Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "authorization needed"],
    "api-key-header": ["X-Api-Key: <key>", "x-ray: " + alnum(32), "X-Api-Key: short"],
    "bearer-token": ["Bearer <token>", "bearer of good news", "Bearer $TOKEN"],
    "card-number": [
        "4111 1111 1111 1112", "1234567812345670", "4111111111111111" + "0" * 8, "id-4111111111111111",
        "0.4111111111111111",
        "1700000000000000000",
    ],
    "email": ["@decorator", "a@b", "user at example.com", "git log --author=@me"],
    "phone": ["2024-05-06", "192.168.100.200", "1700000000", "+1", "v415-555-2671"],
}  # fmt: skip
"""For each rule, texts in which it finds nothing."""

EVERY = Rules(builtin(*PERSONAL))


def found(text: str, rules: Rules = EVERY) -> set[str]:
    return {finding.rule for finding in redact(clew.user(text), rules).findings}


def words(said: clew.Message | clew.Native) -> str:
    assert isinstance(said, clew.Message)
    return said.text


# -- the rules


def test_every_rule_has_its_examples() -> None:
    """Nothing is built in that was not tried."""
    assert set(TRUE) == set(FALSE) == {rule.id for rule in builtin(*PERSONAL)} == EVERY.ids


@pytest.mark.parametrize(("id", "value"), [(id, value) for id, values in TRUE.items() for value in values])
def test_what_a_rule_finds(id: str, value: str) -> None:
    """The value goes, whatever stands around it; the rest stays."""
    rules = Rules([id])
    among = AMONG.get(id, "{}")
    for before, after in (
        ("", ""),
        ("see: ", " and so on"),
        ('a "', '" b'),
        ("line\n", "\nline"),
        ("one\\n", "\\ntwo"),
    ):
        text = before + among.format(value) + after
        done = redact(clew.user(text), rules)
        assert [(one.rule, one.count) for one in done.findings] == [(id, 1)], text
        assert words(done.said) == before + among.format("***") + after


@pytest.mark.parametrize(("id", "text"), [(id, text) for id, texts in FALSE.items() for text in texts])
def test_what_a_rule_leaves(id: str, text: str) -> None:
    """What only looks alike is left alone, and the message is the very same."""
    said = clew.user(f"see {text} here")
    assert redact(said, Rules([id])).said is said


@pytest.mark.parametrize("id", TRUE)
def test_hints_hide_nothing(id: str) -> None:
    """A rule finds the same with its hints as without."""
    (rule,) = (rule for rule in EVERY if rule.id == id)
    bare = Rules([msgspec.structs.replace(rule, hints=())])
    for value in TRUE[id]:
        text = AMONG.get(id, "{}").format(value)
        for shown in (text, text.upper(), text.lower()):
            assert found(shown, Rules([rule])) == found(shown, bare)


def test_a_key_that_was_cut_off() -> None:
    """It goes to its last line; the word after that may have been part of it."""
    cut = PEM.format("OPENSSH ", BODY).partition("-----END")[0][:-30]
    assert words(redact(clew.user(f"see {cut}"), EVERY).said) == "see ***"
    assert words(redact(clew.user(f"see {cut}\nand so on"), EVERY).said) == "see *** so on"


def test_hints_may_overlap() -> None:
    """One that begins inside of another is seen too, and the shorter of two that begin together."""
    rules = Rules([Rule("a", "xx", hints=("abc",)), Rule("b", "cd", hints=("cd",)), Rule("c", "ab.d", hints=("ab",))])
    assert found("abcd", rules) == {"b", "c"}


def test_ordinary_text_is_left_alone() -> None:
    """Code, prose, hashes, ids and addresses are no secrets."""
    text = (Path(__file__).parents[2] / "docs/design.md").read_text(encoding="utf-8")
    text += f"{hexa(40)} {hexa(64)} sha256:{hexa(64)} 01890a5d-ac96-774b-bcce-b302099a8057"
    text += f" data:image/png;base64,{alnum(900)}"
    assert found(text, Rules(builtin())) == set()


def test_personal_data_is_opt_in() -> None:
    """E-mail addresses and telephone numbers are found only if they are asked for, and are no secrets."""
    text = "ada@example.com, +14155552671"
    assert found(text, Rules(builtin())) == set()
    done = redact(clew.user(text), Rules(builtin("email", "phone")))
    assert words(done.said) == "***, ***"
    note = annotation(done.said)
    assert note is not None
    assert (note.contains_secrets, note.redaction_rules_applied) == (False, ("email", "phone"))


def test_check_digits() -> None:
    """The sum of digits, every second one doubled."""
    assert [luhn(text) for text in ("4111 1111 1111 1111", "4111111111111112", "0", "", "79927398713")] == [
        True, False, True, False, True,
    ]  # fmt: skip


def test_a_rule_of_ones_own() -> None:
    """Flags, a replacement, and a group that is all that is replaced."""
    rules = Rules([
        Rule("ticket", r"acme-\d{4}", "gi", "[ticket]"),
        Rule("pin", r"pin: (?P<value>\d{4})", replacement="####"),
        Rule("line", r"^note .*$", "m", "[line]"),
        Rule("block", r"<<.*>>", "s", "[block]"),
    ])  # fmt: skip
    done = redact(clew.user("ACME-1234, acme-5678\npin: 1234\nnote this\n<<a\nb>>"), rules)
    assert words(done.said) == "[ticket], [ticket]\npin: ####\n[line]\n[block]"
    assert {one.rule: one.count for one in done.findings} == {"ticket": 2, "pin": 1, "line": 1, "block": 1}


def test_neighbours_are_all_found() -> None:
    """What stands between two values belongs to both."""
    rules = Rules(builtin("phone"))
    assert words(redact(clew.user(f"{CARD} {CARD} {CARD}"), rules).said) == "*** *** ***"
    assert len(rules._finds(f"{CARD} {CARD} {CARD}".encode(), TimeBudget(0))) == 3  # at once
    assert words(redact(clew.user("+14155552671\n+14155552672"), rules).said) == "***\n***"


def test_overlapping_finds_are_one() -> None:
    """A token in a header is found by two rules and replaced once."""
    done = redact(clew.user(f"Authorization: Bearer {GITHUB}"), EVERY)
    assert words(done.said) == "Authorization: Bearer ***"
    assert {"github-token", "authorization-header"} <= {one.rule for one in done.findings}


def test_letters_of_several_bytes() -> None:
    """A find begins and ends between letters, also if the pattern counts bytes."""
    assert words(redact(clew.user("«é»" + GITHUB + "«é»"), EVERY).said) == "«é»***«é»"
    assert words(redact(clew.user("aéb"), Rules([Rule("byte", r"\C\xa9|a\C", "", "-")])).said) == "-b"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Rule("a", "("), "cannot be used"),
        (Rule("a", r"(?<=x)y"), "cannot be used"),
        (Rule("a", r"(?!x)y"), "cannot be used"),
        (Rule("a", r"(x)\1"), "cannot be used"),
        (Rule("a", r"\pL"), "cannot be used"),
        (Rule("a", "x{1001}"), "cannot be used"),
        (Rule("a", "((x{100}){100}){100}"), "cannot be used"),
        (Rule("a", "(x{900}y{900})"), "too large"),
        (Rule("a", "x" * 5000), "more than"),
        (Rule("a", "x*"), "matches the empty string"),
        (Rule("a", r"\b"), "matches the empty string"),
        (Rule("a", "^"), "matches the empty string"),
        (Rule("a", "x", "y"), "unknown flag 'y'"),
        (Rule("a", "x", "xi"), "unknown flag 'x'"),
        (Rule("a", "x", replacement="axa"), "replacement 'axa'"),
        (Rule("a", "x\ud800"), "lone surrogate"),
        (Rule("a", "x", replacement="\ud800"), "lone surrogate"),
        (Rule("a", 5), "must be str"),  # type: ignore[arg-type]
        (Rule("a", "x", replacement=None), "must be str"),  # type: ignore[arg-type]
        (Rule("a", "x", hints="x"), "hints"),  # type: ignore[arg-type]
        (Rule("a", "x", hints=("\ud800",)), "lone surrogate"),
        (Rule("a", "x", hints=("x" * 101,)), "hints"),
        (Rule("a", "x", hints=tuple(f"x{n}" for n in range(51))), "hints"),
        (Rule("a", "x", "i", hints=("X",)), "must be lower case"),
        (Rule("a", "x", check="sum"), "unknown check 'sum'"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_cannot_be_used_is_named(rule: Rule, why: str) -> None:
    """The set is refused when it is made, so that no message is refused later."""
    with pytest.raises(clew.Invalid, match=r"rule a\b") as error:
        Rules([*builtin(), rule])
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([Rule("A b", "x")], "not a valid id"),
        ([Rule("", "x")], "not a valid id"),
        ([Rule("a", "x"), Rule("a", "y")], "two redaction rules have the id a"),
        (["github-token", "github-token"], "two redaction rules have the id github-token"),
        (["none"], "unknown built-in redaction rule 'none'"),
        ([5], "not int"),
        ("email", "a list of"),
        (5, "a list of"),
    ],
)
def test_a_set_that_makes_no_sense(rules: Any, why: str) -> None:
    """Ids are well formed and differ; a text names a built-in rule."""
    with pytest.raises(clew.Invalid) as error:
        Rules(rules)
    assert why in str(error.value)


def test_the_set_tells_nothing_when_shown() -> None:
    """A repr has ids alone: a pattern may itself be a secret."""
    rules = Rules(["email", Rule("word", "swordfish")])
    assert (repr(rules), len(rules), [rule.id for rule in rules]) == ("<Rules email, word>", 2, ["email", "word"])


# -- time


HOSTILE = [r"(a+)+$", r"(a|aa)+$", r"(a*)*b", r"(.*a){20}$", r"(a+a+)+b", r"([a-z]+)*\d"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_stalls(pattern: str) -> None:
    """Patterns that stall other engines for ages search a megabyte at once: refused here, this would never end."""
    try:
        rules = Rules([Rule("hostile", pattern)])
    except clew.Invalid:
        return  # it can match nothing
    said = clew.user("a" * 1_000_000 + "!")
    assert redact(said, rules).said is said


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a[^z]*z|a", "a" * 300_000),  # each find looks at all that follows
        (
            "[ab]*a[ab]{900}x",
            "".join("ab"[n * n % 7 % 2] for n in range(100_000)) * 10,
        ),  # as many states as there are bytes
    ],
)
def test_what_takes_too_long_is_refused(pattern: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for all that is found is bounded too: the message is refused, naming the rule, and not stored."""
    monkeypatch.setattr("clew.redaction.linear.SECONDS", 0.05)
    monkeypatch.setattr("clew.redaction.linear.SECONDS_PER_MB", 0.0)
    with clew.open(":memory:", redact=Rules([Rule("slow", pattern, replacement="-")])) as store:
        session = store.sessions.create()
        with pytest.raises(clew.Invalid, match="rule slow takes too long"):
            session.append(clew.user(text))
        assert session.path() == []


def test_a_rule_that_never_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement that makes the same rule find something again and again ends in a refusal, not in a loop."""
    with pytest.raises(clew.Invalid, match="rule a still matches"):
        redact(clew.user("az"), Rules([Rule("a", "(?P<value>a)z", replacement="qa")]))


def test_large_texts_are_looked_through_in_pieces() -> None:
    """What lies across the end of a piece is found, whole, and so is what is longer than any."""
    key = PEM.format("RSA ", "\n".join(alnum(64) for _ in range(190)))
    for at in (VIEW - 7, VIEW - 1, VIEW, 2 * VIEW - 20, VIEW - len(key) // 2):
        text = "x" * (at - 1) + " {} " + "y" * VIEW
        for value in (GITHUB, key):
            assert words(redact(clew.user(text.format(value)), EVERY).said) == text.format("***")
    long = "Bearer " + "a" * (3 * VIEW) + " end"
    assert words(redact(clew.user(long), EVERY).said) == "Bearer *** end"


# -- messages


CANARY = GITHUB
RULES = Rules(builtin())


def in_every_block(text: str) -> clew.Message:
    return clew.Message(
        "assistant",
        (
            clew.Text(text=text, extra={"a": [text, {"b": text}]}),
            clew.Thinking(text=text),
            clew.ToolCall(id="c1", name="n", arguments={"a": text, "b": [{"c": text}], text: 1, "signature": text}),
            clew.ToolResult(call_id="c1", content=(clew.Text(text=text), clew.Opaque(kind="x", data=[text]))),
            clew.Media(mime_type="image/png", modality="image", url=f"https://a.example/?t={text}", name=text),
            clew.Opaque(kind="k", data={"deep": {"er": [text]}, "json": json.dumps({"q": f'"{text}'})}),
        ),
        model=text,
        label=text,
        extra={"x": text, text: {"y": text}},
    )  # fmt: skip


def test_every_block_and_member() -> None:
    """Wherever a message has words, nothing gets through; what was found is told by rule, block and kind."""
    done = redact(in_every_block(CANARY), RULES)
    assert CANARY not in msgspec.json.encode(done.said).decode()
    assert CANARY not in repr(done)
    places = {(one.block, one.kind): one.count for one in done.findings}
    assert places == {
        (0, "text"): 3, (1, "thinking"): 1, (2, "tool_call"): 4, (3, "tool_result"): 2, (4, "media"): 2,
        (5, "opaque"): 2, (None, "model"): 1, (None, "label"): 1, (None, "extra"): 3,
    }  # fmt: skip
    expected = in_every_block("***")
    assert isinstance(done.said, clew.Message)
    assert done.said.blocks == expected.blocks
    assert (done.said.extra or {}).pop(NOTE) == {
        "containsSecrets": True, "redactionRulesApplied": ("github-token",),
    }  # fmt: skip
    assert done.said.extra == expected.extra


def test_a_number_need_not_stand_in_quotes() -> None:
    """A card number in a tool's arguments may be a number; other numbers stay as they are."""
    call = clew.ToolCall(id="1", name="pay", arguments={"card": 4111111111111111, "cents": 123456, "at": 1700000000000})
    done = redact(clew.assistant(call, usage=clew.Usage(input=4111111111111)), RULES)
    assert isinstance(done.said, clew.Message)
    block = done.said.blocks[0]
    assert isinstance(block, clew.ToolCall)
    assert block.arguments == {"card": "***", "cents": 123456, "at": 1700000000000}
    assert done.said.usage == clew.Usage(input=4111111111111)


def test_keys_stay_apart() -> None:
    """Two keys that are redacted do not become one, nor one that was there."""
    call = clew.ToolCall(id="1", name="n", arguments={GITHUB: 1, "gho_" + alnum(36): 2, "***": 3})
    said = redact(clew.assistant(call), RULES).said
    assert isinstance(said, clew.Message)
    assert sorted(said.blocks[0].arguments.values()) == [1, 2, 3]  # type: ignore[union-attr]


def test_json_in_a_text() -> None:
    """What JSON inside of a text hides behind escapes is found; the rest of that JSON stays as it was written."""
    hidden = '{ "a" : 1.0, "key": "\\u0067hp_' + alnum(36) + '", "b": 12345678901234567890 }'
    done = redact(clew.tool(hidden, call_id="1"), RULES)
    assert words(done.said) == '{ "a" : 1.0, "key": "***", "b": 12345678901234567890 }'
    twice = json.dumps({"inner": hidden})
    assert alnum(36) not in words(redact(clew.user(twice), RULES).said)


def test_the_structure_is_not_touched() -> None:
    """A rule that finds clew's own words in clew's own places changes nothing there."""
    rules = Rules([Rule("words", "text|user|blocks|type|role|image|tool_call|arguments", replacement="-")])
    said = clew.user("a text", clew.Media(mime_type="a/b", modality="image", blob="ab" * 32))
    done = redact(said, rules).said
    assert isinstance(done, clew.Message)
    assert (done.role, done.text) == ("user", "a -")
    assert done.blocks[1:] == said.blocks[1:]


def test_redacting_twice_is_redacting_once() -> None:
    """What was redacted is left as it is, its annotation too, even if a rule finds its own name in it."""
    rules = Rules([*builtin(), Rule("acme-secret", "acme|[0-9a-f]{32}|contains", "i")])
    once = redact(in_every_block(f"{CANARY} acme"), rules, token=lambda rule, value: f"{rule}:{'ab' * 16}").said
    again = redact(once, rules)
    assert again.said is once
    assert again.findings == ()


def test_more_is_found_later() -> None:
    """Stricter rules add to what the annotation says."""
    once = redact(clew.user(f"{CANARY} ada@example.com"), RULES, token=lambda rule, _: f"{rule}:{'0' * 32}").said
    note = annotation(redact(once, Rules(["email"]), token=lambda rule, _: f"{rule}:{'1' * 32}").said)
    assert note == redaction.Annotation(
        True, ("email", "github-token"), (f"email:{'1' * 32}", f"github-token:{'0' * 32}")
    )


def test_an_annotation_hides_nothing() -> None:
    """What is put where an annotation stands, and is none, is looked at like the rest."""
    said = clew.user("x", extra={NOTE: {"piiTokens": [CANARY], "redactionRulesApplied": [CANARY], CANARY: CANARY}})
    assert CANARY not in repr(redact(said, RULES).said)


def test_a_malformed_annotation_is_none() -> None:
    """An extra of another program's is not taken for one."""
    assert annotation(clew.user("x", extra={NOTE: 5})) is None
    assert annotation(clew.user("x")) is None


def test_only_messages_and_rules() -> None:
    """Anything else is told by its type."""
    with pytest.raises(clew.Invalid, match="not str"):
        redact("x", RULES)  # type: ignore[arg-type]
    with pytest.raises(clew.Invalid, match="not tuple"):
        redact(clew.user("x"), builtin())  # type: ignore[arg-type]
    with pytest.raises(clew.Invalid, match="not tuple"):
        clew.open(":memory:", redact=builtin())  # type: ignore[arg-type]


def test_many_values_have_few_tokens() -> None:
    """A list of addresses does not come back as a list of hashes."""
    text = " ".join(f"a{n}@example.com" for n in range(300))
    done = redact(clew.user(text), EVERY, token=lambda rule, value: f"{rule}:{value.encode().hex():0>32}")
    note = annotation(done.said)
    assert note is not None
    assert (done.findings[0].count, len(note.pii_tokens)) == (300, 100)


# -- signatures


def test_a_signature_is_left_alone() -> None:
    """Signatures and encrypted reasoning are not looked into, whatever a rule would find there."""
    said = clew.assistant(
        clew.Thinking(text="so", signature=CANARY), clew.Thinking(redacted=CANARY), clew.Text(text=CANARY)
    )
    done = redact(said, RULES)
    assert isinstance(done.said, clew.Message)
    assert done.said.blocks[:2] == said.blocks[:2]
    assert (done.said.text, done.not_replayable) == ("***", ())


def test_a_signed_block_that_changes_loses_its_signature() -> None:
    """It is marked, and told; encrypted reasoning is kept byte for byte. Other blocks keep their signature."""
    said = clew.assistant(
        clew.Thinking(text="fine", signature="s0"),
        clew.Thinking(text=f"the key {CANARY}", signature="s1", extra={"n": 1}),
        clew.Thinking(text=CANARY, redacted="enc"),
        clew.ToolCall(id="1", name="n", arguments={"k": CANARY}, extra={"thoughtSignature": "s3"}),
    )
    done = redact(said, RULES)
    assert isinstance(done.said, clew.Message)
    assert done.said.blocks == (
        said.blocks[0],
        clew.Thinking(text="the key ***", extra={"n": 1, "clew.replayable": False}),
        clew.Thinking(text="***", redacted="enc", extra={"clew.replayable": False}),
        clew.ToolCall(
            id="1", name="n", arguments={"k": "***"}, extra={"thoughtSignature": None, "clew.replayable": False}
        ),
    )
    assert done.not_replayable == (1, 2, 3)
    note = annotation(done.said)
    assert note is not None
    assert note.not_replayable == (1, 2, 3)


@pytest.mark.parametrize(
    ("provider", "before", "after", "unsigned"),
    [
        (
            "anthropic",
            '{"role":"assistant","content":[{"signature":"SIG","thinking":"CANARY","type":"thinking"},{"type":"text","text":"ok"}]}',
            '{"role":"assistant","content":[{"signature":null,"thinking":"***","type":"thinking"},{"type":"text","text":"ok"}]}',
            (0,),
        ),
        (
            "anthropic",
            '{"role":"assistant","content":[{"type":"thinking","thinking":"ok","signature":"CANARY"},{"type":"text","text":"CANARY"}]}',
            '{"role":"assistant","content":[{"type":"thinking","thinking":"ok","signature":"CANARY"},{"type":"text","text":"***"}]}',
            (),
        ),
        (
            "anthropic",
            '{"role":"assistant","content":[{"type":"redacted_thinking","data":"CANARY"},{"type":"text","text":"CANARY"}]}',
            '{"role":"assistant","content":[{"type":"redacted_thinking","data":"CANARY"},{"type":"text","text":"***"}]}',
            (),
        ),
        (
            "anthropic",
            '{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"type":"thinking","signature":"CANARY"}}]}',
            '{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"type":"thinking","signature":"***"}}]}',
            (),
        ),
        (
            "openai",
            '{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"CANARY"}],"encrypted_content":"CANARY"}',
            '{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"***"}],"encrypted_content":"CANARY"}',
            (0,),
        ),
        (
            "openai",
            '{"role":"assistant","tool_calls":[{"function":{"name":"n","arguments":"{\\"k\\": \\"CANARY\\"}"}}]}',
            '{"role":"assistant","tool_calls":[{"function":{"name":"n","arguments":"{\\"k\\": \\"***\\"}"}}]}',
            (),
        ),
        (
            "gemini",
            '{"role":"model","parts":[{"functionCall":{"name":"n","args":{"k":"CANARY"}},"thoughtSignature":"SIG"},{"text":"x","thoughtSignature":"S2"}]}',
            '{"role":"model","parts":[{"functionCall":{"name":"n","args":{"k":"***"}},"thoughtSignature":null},{"text":"x","thoughtSignature":"S2"}]}',
            (0,),
        ),
        ("other", '{"signature":"CANARY","CANARY":[4111111111111111]}', '{"signature":"***","***":["***"]}', ()),
    ],
)  # fmt: skip
def test_native_messages(provider: str, before: str, after: str, unsigned: tuple[int, ...]) -> None:
    """The provider's JSON stays byte for byte but for what was found, and for the signature of what changed."""
    done = redact(clew.native(provider, before.replace("CANARY", CANARY)), RULES)
    assert isinstance(done.said, clew.Native)
    assert done.said.raw.decode() == after.replace("CANARY", CANARY)
    assert done.not_replayable == unsigned


ODD = b'{ "role" :"u", "content": "KEY \\ud800 \\u00e9\\/ \xc3\xa9", "n": 1.50e+3, "n": 12345678901234567890123456 }\n'


def test_native_bytes_are_exact() -> None:
    """Spaces, escapes, big numbers, keys that come twice: only the one text is written anew."""
    raw = ODD.replace(b"KEY", b"words")
    said = clew.native("other", raw)
    assert redact(said, RULES).said is said
    done = redact(clew.native("other", ODD.replace(b"KEY", CANARY.encode())), RULES).said
    assert isinstance(done, clew.Native)
    head, _, tail = ODD.partition(b'"KEY \\ud800 \\u00e9\\/ \xc3\xa9"')
    assert done.raw.startswith(head)
    assert done.raw.endswith(tail)
    assert json.loads(done.raw)["content"] == json.loads(raw)["content"].replace("words", "***")


def test_what_stands_beside_a_native_message() -> None:
    """Its label and its extra are redacted like those of any other; the provider's bytes need not change for that."""
    said = clew.native("openai", '{"role":"user","content":"hi"}', label=CANARY, extra={"a": CANARY})
    done = redact(said, RULES).said
    assert isinstance(done, clew.Native)
    assert (done.raw, done.label) == (said.raw, "***")
    assert done.extra == {"a": "***", NOTE: {"containsSecrets": True, "redactionRulesApplied": ("github-token",)}}


# -- properties

plain = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
secret = st.sampled_from([GITHUB, TRUE["aws-access-key"][0], TRUE["json-web-token"][0], TRUE["private-key"][0], CARD])
around = st.sampled_from(["", " ", "\n", '"', ": ", "\\n", "é "])
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)


def blocks_with(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    value = st.one_of(text, st.lists(text, max_size=2), st.dictionaries(text, text, max_size=2), data)
    extra = st.none() | st.dictionaries(plain, value, max_size=2)
    inner = st.one_of(
        st.builds(clew.Text, text=text, extra=extra), st.builds(clew.Opaque, kind=text, data=value, extra=extra)
    )
    return st.one_of(
        inner,
        st.builds(clew.Thinking, text=text, extra=extra),
        st.builds(clew.ToolCall, id=text, name=text, arguments=st.dictionaries(text, value, max_size=2), extra=extra),
        st.builds(clew.ToolResult, call_id=text, content=st.lists(inner, max_size=2).map(tuple), extra=extra),
        st.builds(clew.Media, mime_type=text, modality=st.just("image"), url=text, name=text, extra=extra),
    )


def messages_with(text: st.SearchStrategy[str]) -> st.SearchStrategy[clew.Message]:
    return st.builds(
        clew.Message,
        st.sampled_from(["user", "assistant", "tool"]),
        st.lists(blocks_with(text), max_size=3).map(tuple),
        model=st.none() | text,
        label=st.none() | text,
        extra=st.none() | st.dictionaries(text, text | data, max_size=2),
    )


tainted = st.builds(
    lambda a, b, c, d, e: a + b + c + d + e, plain, around.filter(bool), secret, around.filter(bool), plain
)


@settings(max_examples=150, deadline=None)
@given(messages_with(tainted | plain))
def test_no_secret_gets_through(said: clew.Message) -> None:
    """Whatever the message, and wherever a secret stands in it, it is not in what is stored; a second time is idle."""
    done = redact(said, RULES)
    shown = json.dumps(msgspec.to_builtins(done.said), ensure_ascii=False)
    for value in (GITHUB, TRUE["aws-access-key"][0], TRUE["json-web-token"][0], CARD, BODY.split("\n")[0]):
        assert value not in shown
    assert redact(done.said, RULES).said is done.said
    assert bool(done.findings) == (done.said is not said)
    encode(done.said)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(plain, st.sampled_from([" ", "\n", ", "]), secret.filter(lambda one: one != CARD)), max_size=4),
    plain,
)
def test_nothing_else_changes(parts: list[tuple[str, str, str]], end: str) -> None:
    """A text keeps every letter but those of the secrets."""
    text = "".join(before + gap + value + "\n" for before, gap, value in parts) + end
    expected = "".join(f"{before}{gap}***\n" for before, gap, value in parts) + end
    assert words(redact(clew.user(text), RULES).said) == expected


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(plain, data, max_size=4), st.sampled_from([None, 2]), st.booleans())
def test_a_native_message_without_a_secret_is_the_same(value: dict[str, Any], indent: int | None, escape: bool) -> None:
    """Byte for byte: the very same object comes back."""
    said = clew.native("other", json.dumps(value, indent=indent, ensure_ascii=escape))
    assert redact(said, RULES).said is said


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(plain.filter(lambda key: "ignature" not in key), data | tainted, max_size=4), st.booleans())
def test_a_native_message_changes_only_in_its_texts(value: dict[str, Any], escape: bool) -> None:
    """What comes out is JSON of the same form, with the same numbers and the same keys in the same order.

    But for signatures: they are no text, and go with what they signed.
    """
    said = clew.native("other", json.dumps(value, ensure_ascii=escape))
    done = redact(said, RULES).said
    assert isinstance(done, clew.Native)
    assert list(json.loads(done.raw)) == list(value)
    assert [type(one) for one in json.loads(done.raw).values()] == [type(one) for one in value.values()]
    assert all(one not in done.raw.decode() for one in (GITHUB, TRUE["aws-access-key"][0], CARD))


# -- the store


def on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))


def test_no_path_goes_around_it(tmp_path: Path) -> None:
    """However a message, a title, a label or a log entry comes in, the secret never reaches the disk."""
    path = tmp_path / "a.db"
    text = f"it is {CANARY} then"
    with clew.open(path, redact=RULES) as store:
        session = store.sessions.create(title=text, labels=[CANARY, "b"], extra={"a": [text]}, model=text)
        session.append(clew.user(text))
        session.append([clew.user(text), clew.native("openai", json.dumps({"role": "user", "content": text}))])
        session.append(clew.user(text), expect_head=None, on_conflict="branch")
        session.compact(clew.user(text))
        store.nodes.save([clew.user(text), clew.NewNode(clew.user(text))])
        store.nodes.save_dialog([*session.path(), clew.user(text)])
        session.rename(text).label(f"{CANARY}2").update(extra={CANARY: 1}, model=text)
        session.append(clew.native(CANARY, b"{}"))
        session.append(
            clew.user(json.dumps({"n": 1, "k": f"\n{CANARY}"}).replace("1", "9" * 5000, 1).replace("g", "\\u0067"))
        )
        session.append(clew.user(json.dumps(CANARY).replace("g", "\\u0067")))
        session.hold(text).release()
        session.update(extra={"thinking": {"signature": CANARY}, "thoughtSignature": CANARY})
        session.fork(title=text)
        store.sessions.create(agent=text, owner=session, title=text)
        session.log.append([text.encode(), json.dumps({"a": f"\n{CANARY}"}).encode(), b"\xff" + b"x"])
        assert CANARY.encode() not in on_disk(path)
        assert len(store.search("then", limit=50)) == 8
        assert store.search(CANARY) == []
        assert CANARY.encode() not in on_disk(path)
        assert (session.title, session.labels) == ("it is *** then", ("***", "b"))
        assert session in store.sessions.list(label="b").items
        assert store.sessions.list(label="***").items == store.sessions.list(label="b").items
        entries = [entry.data for entry in session.log.read()]
        assert entries == [b"it is *** then", b'{"a": "\\n***"}', b"\xffx"]
    assert CANARY.encode() not in on_disk(path)


def test_no_snapshot_goes_around_it(tmp_path: Path) -> None:
    """However a snapshot comes in, neither its messages nor what is around them bring the secret to the disk."""
    path = tmp_path / "a.db"
    text = f"it is {CANARY} then"
    message = json.dumps({"role": "user", "content": text}).encode()
    with clew.open(path, redact=RULES) as store:
        odd = [b"[" + message + b"]", b'{"a": ' + message + b"}", b'["\\ud800 %s", 1]' % CANARY.encode(), b"[ ]"]
        around: dict[str, Any] = {
            "system_prompt": text,
            "tools": [ToolSnapshot("look", text, {"type": "object", "properties": {CANARY: {"description": text}}})],
            "metadata": {"a": text, CANARY: "b"},
        }
        made = [new_snapshot(provider="claude", messages=raw, model=text, **around) for raw in odd]
        for snapshot in made:
            store.snapshots.save(snapshot)
        talk, said = Messages(), new_snapshot(provider="claude").id
        for _ in range(3):
            talk.append(message)
            store.snapshots.save(new_snapshot(provider="claude", messages=talk, **around).replace(id=said))
        session = store.sessions.create()
        session.append(clew.user(text))
        taken = store.snapshots.take(session, **around)
        assert CANARY.encode() not in on_disk(path)
        assert store.snapshots.load(taken.id) == taken
        first = store.snapshots.load(made[0].id)
        assert (first.model, first.system_prompt, first.metadata) == (
            *["it is *** then"] * 2,
            {"a": "it is *** then", "***": "b"},
        )
        assert first.messages == b'[{"role": "user", "content": "it is *** then"}]'
        assert (first.created_at, first.provider, first.id) == (made[0].created_at, "claude", made[0].id)
        assert store.snapshots.load(said).message_count == 3
    assert CANARY.encode() not in on_disk(path)


def test_without_rules_nothing_is_redacted() -> None:
    """Redaction is asked for, never assumed."""
    with clew.open(":memory:") as store:
        node = store.sessions.create().append(clew.user(CANARY))
        assert (node.text, node.redactions) == (CANARY, ())


def test_the_caller_is_told() -> None:
    """The node that comes back says what was found, and so does the stored one."""
    with clew.open(":memory:", redact=RULES) as store:
        session = store.sessions.create()
        node = session.append(clew.user(CANARY))
        clean = session.append(clew.user("hello"))
        assert (node.text, node.redactions, clean.redactions) == ("***", ("github-token",), ())
        assert session.path()[0].redactions == ("github-token",)
        native = session.append(clew.native("openai", json.dumps({"role": "user", "content": CANARY})))
        assert (native.text, native.redactions) == ("***", ("github-token",))


def test_a_retry_is_a_retry() -> None:
    """The same message under the same id is stored once, though what is stored is not what was given."""
    id = "01890a5d-ac96-774b-bcce-b302099a8057"
    with clew.open(":memory:", redact=RULES) as store:
        session = store.sessions.create()
        first = session.append(clew.user(CANARY), id=id)
        assert session.append(clew.user(CANARY), id=id) == first
        assert store.nodes.save(clew.NewNode(clew.user(CANARY), parent=None, id=id)) == [first]
        with pytest.raises(clew.Conflict):
            session.append(clew.user("gho_" + alnum(36)), id=id)  # the same text once redacted, and yet another message
        session.log.append(CANARY.encode(), id="01890a5d-ac96-774b-bcce-b302099a8058")
        session.log.append(CANARY.encode(), id="01890a5d-ac96-774b-bcce-b302099a8058")
        assert (len(session.path()), len(session.log)) == (1, 1)


def test_what_is_stored_already_goes_on(tmp_path: Path) -> None:
    """A dialog that begins with messages stored before there were rules is not refused for them."""
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        old = store.nodes.save([clew.user(CANARY), clew.assistant("ok")])
    with clew.open(path, redact=RULES) as store:
        nodes = store.nodes.save_dialog([*store.nodes.get([node.id for node in old]), clew.user(CANARY)])
        assert [node.text for node in nodes] == [CANARY, "ok", "***"]


def test_tokens_tell_equal_values_and_no_more(tmp_path: Path) -> None:
    """Equal values have equal tokens in one store, and others in another; through an exchange of keys they stay."""
    path = tmp_path / "a.db"

    def tokens(store: clew.Store, text: str) -> tuple[str, ...]:
        note = annotation(store.sessions.create().append(clew.user(text)).said)
        assert note is not None
        return note.pii_tokens

    with clew.open(path, key=bytes(32), redact=EVERY) as store:
        first = tokens(store, "ada@example.com")
        assert first == tokens(store, "mail ada@example.com!")
        assert first != tokens(store, "bob@example.com")
        assert len(tokens(store, f"{CANARY} {CARD} {CARD}")) == 2
        store.rotate(bytes(range(32)))
        assert tokens(store, "ada@example.com") == first
    assert first[0].startswith("email:")
    assert len(first[0]) == len("email:") + 32
    with clew.open(":memory:", redact=EVERY) as other:
        assert tokens(other, "ada@example.com") != first


def test_the_limit_counts_what_is_stored() -> None:
    """A message that is too large is refused also if redaction made it so."""
    with clew.open(":memory:", redact=Rules([Rule("x", "x", replacement="-" * 100)]), max_body=1000) as store:
        with pytest.raises(clew.Invalid, match="the limit is 1,000"):
            store.sessions.create().append(clew.user("x" * 50))


@pytest.mark.anyio
async def test_the_async_face(tmp_path: Path) -> None:
    """It takes the same option, and nothing goes around it there either."""
    import clew.aio

    path = tmp_path / "a.db"
    async with clew.aio.open(os.fspath(path), redact=RULES) as store:
        session = await store.sessions.create(title=CANARY)
        node = await session.append(clew.user(CANARY))
        assert node.redactions == ("github-token",)
    assert CANARY.encode() not in on_disk(path)


def test_spans_are_positions_of_characters() -> None:
    """Matches are given where they are in the text, in order, also after characters of several bytes, and merged."""
    rules = Rules([Rule("word", r"secret\w*"), Rule("tail", r"ret\d+ more"), Rule("umlaut", "ü+")])
    text = "é𝄞 secret1 more, üü and secret2"
    found = rules.spans(text, TimeBudget(len(text)))
    assert [(text[start:end], rule) for start, end, rule in found] == [
        ("secret1 more", "word"), ("üü", "umlaut"), ("secret2", "word"),
    ]  # fmt: skip
    assert rules.spans("nothing", TimeBudget(7)) == []
