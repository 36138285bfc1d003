"""Redaction rules, and the built-in ones: for secrets, and opt-in for personal data. To add a rule, add a row."""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.errors import Invalid, clip


class Rule(msgspec.Struct, frozen=True):
    """A pattern to find, and the replacement for it.

    `pattern` is a regular expression in RE2's syntax. If it has a group named ``value``, only that group is
    replaced, otherwise the whole match. `flags` are letters: ``i`` ignores case, ``m`` lets ^ and $ match at lines,
    ``s`` lets a dot match a newline; ``g`` and ``u`` are always on. `replacement` is literal text.
    """

    id: str
    pattern: str
    flags: str = ""
    replacement: str = "***"
    check: Literal["luhn"] | None = None
    """``luhn``: matches only numbers with a valid check digit."""
    personal: bool = False
    """Personal data, not a secret."""
    hints: tuple[str, ...] = ()
    """Every match contains one of these texts: texts without any are not searched. Lower case if the rule ignores
    case."""


_TO = r"""["'\\]*\s*(?:=>|[:=])\s*["'\\]*"""
"""The separator between a name and its value, in most notations."""
_FOUR = r"[ -]?\d{4}"


def _rule(id: str, pattern: str, hints: str, flags: str = "") -> Rule:
    return Rule(id, pattern, flags, hints=tuple(hints.split()))


_SECRETS = (
    # -- clouds
    _rule("aws-access-key", r"\bA(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}\b", "AKIA ASIA ABIA ACCA"),
    _rule(
        "aws-secret-key",
        r"(?:aws[\w.-]*secret[\w.-]*|secret_?access_?key)" + _TO + r"(?P<value>[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)",
        "secret",
        flags="i",
    ),
    _rule(
        "aws-session-token", r"(?:IQoJb3JpZ2luX2Vj|F[wQ]oGZXIvYXdz)[A-Za-z0-9/+=]{40,}", "IQoJb3JpZ2luX2Vj oGZXIvYXdz"
    ),
    _rule("aws-bedrock-key", r"ABSKQmVkcm9ja0FQSUtleS[A-Za-z0-9+/=]{40,}", "ABSKQmVkcm9ja0FQSUtleS"),
    _rule("google-api-key", r"AIza[0-9A-Za-z_-]{35}", "AIza"),
    _rule(
        "google-oauth",
        r"GOCSPX-[0-9A-Za-z_-]{28}|ya29\.[0-9A-Za-z_.-]{30,}|\b1//0[0-9A-Za-z_-]{40,}",
        "GOCSPX- ya29. 1//0",
    ),
    _rule("azure-storage-key", rf"AccountKey{_TO}(?P<value>[A-Za-z0-9+/]{{86}}==)", "accountkey", flags="i"),
    _rule(
        "azure-shared-access-key", rf"SharedAccessKey{_TO}(?P<value>[A-Za-z0-9+/]{{43}}=)", "sharedaccesskey", flags="i"
    ),
    _rule("azure-shared-access-signature", r"[?&;](?:amp;)?sig=(?P<value>[A-Za-z0-9+/%]{43,}(?:=|%3[Dd]))", "sig="),
    _rule(
        "azure-client-secret",
        r"(?:^|[^\w~.-])(?P<value>[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?:[^\w~-]|$)",
        "Q~",
    ),
    _rule("digitalocean-token", r"do[opr]_v1_[0-9a-f]{64}", "_v1_"),
    _rule("databricks-token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b", "dapi"),
    _rule("heroku-key", r"HRKU-AA[0-9A-Za-z_-]{58}", "HRKU-AA"),
    _rule(
        "hashicorp-token", r"\bhv[bsr]\.[\w-]{24,}|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}", "hvb. hvs. hvr. .atlasv1."
    ),
    # -- code and packages
    _rule(
        "github-token",
        r"gh[oprsu]_[0-9A-Za-z]{36,}|github_pat_[0-9A-Za-z]{22}_[0-9A-Za-z]{59}",
        "gh github_pat_",
    ),
    _rule(
        "gitlab-token",
        r"\bgl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)-[0-9A-Za-z_-]{20,}(?:\.[0-9a-z.]{9,})?|\bGR1348941[\w-]{20}",
        "gl GR1348941",
    ),
    _rule("npm-token", r"\bnpm_[0-9A-Za-z]{36}\b", "npm_"),
    _rule("pypi-token", r"pypi-AgE[\w-]{50,}", "pypi-AgE"),
    _rule("rubygems-key", r"rubygems_[0-9a-f]{48}", "rubygems_"),
    _rule("docker-token", r"dckr_(?:pat|oat)_[\w-]{27,}", "dckr_"),
    _rule("atlassian-token", r"AT(?:ATT|CTT|BB)[0-9A-Za-z][\w=-]{60,}", "ATATT ATCTT ATBB"),
    # -- models
    _rule("anthropic-key", r"sk-ant-[0-9A-Za-z_-]{20,}", "sk-ant-"),
    _rule(
        "openai-key",
        r"\bsk-(?:proj|svcacct|admin|None)-[0-9A-Za-z_-]{20,}|\bsk-[0-9A-Za-z_-]*T3BlbkFJ[0-9A-Za-z_-]{20,}|\bsk-[0-9A-Za-z]{48}\b",
        "sk-",
    ),
    _rule(
        "model-provider-key",
        r"\bsk-or-v1-[0-9a-f]{64}|\bsk-[0-9a-f]{32}\b|\bsk-lf-[0-9a-f-]{36}|\bxai-[0-9A-Za-z]{60,}|\bgsk_[0-9A-Za-z]{40,}"
        r"|\bpplx-[0-9A-Za-z]{40,}|\bhf_[0-9A-Za-z]{30,}|\br8_[0-9A-Za-z]{37,}|\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
        "sk- xai- gsk_ pplx- hf_ r8_ lsv2_",
    ),
    # -- services
    _rule(
        "slack-token", r"xox[abeoprs](?:\.xox[bp])?-\d[0-9A-Za-z-]{9,}|xapp-\d-[0-9A-Z]+-\d+-[0-9A-Za-z]+", "xox xapp-"
    ),
    _rule(
        "webhook",
        r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/webhookb2)/"
        r"(?P<value>[\w/@+-]{20,})",
        "hooks.slack.com /api/webhooks/ webhook.office.com",
    ),
    _rule(
        "stripe-key",
        r"\b(?:sk|rk)_(?:live|test|prod)_[0-9A-Za-z]{16,}|\bwhsec_[0-9A-Za-z+/=]{32,}",
        "k_live_ k_test_ k_prod_ whsec_",
    ),
    _rule("square-token", r"\bsq0(?:atp|csp|idp)-[\w-]{22,}", "sq0"),
    _rule("shopify-token", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}", "shp"),
    _rule("twilio-key", r"\bSK[0-9a-f]{32}\b", "SK"),
    _rule("sendgrid-key", r"\bSG\.[\w-]{22}\.[\w-]{43}", "SG."),
    _rule(
        "mail-service-key",
        r"\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b|xkeysib-[0-9a-f]{64}-[0-9A-Za-z]{16}",
        "key- -us xkeysib-",
    ),
    _rule("telegram-token", r"\b\d{8,10}:AA[\w-]{33}", ":AA"),
    _rule("notion-token", r"\bntn_\d{11}[0-9A-Za-z]{35}", "ntn_"),
    _rule("linear-key", r"\blin_api_[0-9A-Za-z]{40}", "lin_api_"),
    _rule("figma-token", r"\bfigd_[\w-]{40}", "figd_"),
    _rule("supabase-token", r"\bsbp_[0-9a-f]{40}", "sbp_"),
    _rule("grafana-token", r"\bglsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}", "glsa_"),
    _rule("sentry-token", r"\bsntry[su]_[\w+/=-]{40,}", "sntry"),
    _rule("postman-key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}", "PMAK-"),
    _rule("new-relic-key", r"\bNRAK-[0-9A-Z]{27}", "NRAK-"),
    _rule("planetscale-token", r"\bpscale_(?:tkn|oauth|pw)_[\w.=-]{32,}", "pscale_"),
    _rule("doppler-token", r"\bdp\.(?:pt|st|ct|sa)\.[\w.-]{40,}", "dp."),
    _rule("one-password-token", r"\bops_eyJ[0-9A-Za-z+/=]{60,}", "ops_eyJ"),
    # -- of any issuer
    _rule("json-web-token", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}", "eyJ"),
    _rule(
        "private-key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]+-{1,4})*[^-]{40,}-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:\s*[0-9A-Za-z+/=]{32,})+(?:\s*[0-9A-Za-z+/=]+)?)",  # without its end
        "PRIVATE",
    ),
    _rule("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", "AGE-SECRET-KEY-1"),
    _rule(
        "connection-string",
        r"""[A-Za-z][\w+.-]*:(?:\\?/){2}[^\s:/?#@"'<>\\]*:(?P<value>[^\s/@"'<>${}\\][^\s/@"'<>\\]*)@[\w.\[$-]""",
        r":// :\/\/",
    ),
    _rule(
        "connection-password",
        r"""\b(?:server|data source|host|hostname|user id|uid|username|database|initial catalog)\s*=[^;\n]+;[^\n]*?"""
        r"""\b(?:password|pwd)\s*=\s*(?P<value>[^\s;"'${}<>][^\s;"']*)""",
        "password pwd",
        flags="i",
    ),
    _rule(
        "authorization-header",
        rf"authorization{_TO}(?:basic|bearer|bot|digest|token|apikey|key)\s+(?P<value>[\w.~+/=:-]{{8,}})",
        "authorization",
        flags="i",
    ),
    _rule(
        "api-key-header",
        rf"\b(?:authorization|x-(?:[a-z]+-)*(?:api-?key|auth-?token|access-?token|auth-?key)|private-token){_TO}"
        r"(?P<value>[\w.~+/=-]{16,})",
        "authorization key token",
        flags="i",
    ),
    _rule("bearer-token", r"\bbearer\s+(?P<value>[\w.~+/=-]{20,})", "bearer", flags="i"),
    Rule(
        "card-number",
        r"(?:^|[^\w.+/%-])(?P<value>"
        rf"(?:4\d{{3}}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|[245]\d\d)|35\d\d)(?:{_FOUR}){{3}}(?:[ -]?\d{{3}})?"
        r"|3[47]\d\d[ -]?\d{6}[ -]?\d{5}|3(?:0[0-5]|[68]\d)\d[ -]?\d{6}[ -]?\d{4}"
        r")(?:[^\w+/=%-]|$)",
        check="luhn",
    ),
)

_PERSONAL = (
    Rule("email", r"[\w.%+-]+@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*\.[A-Za-z]{2,24}\b", personal=True, hints=("@",)),
    Rule(
        "phone",
        r"(?:^|[^\w+.-])(?P<value>\+[1-9]\d{7,14}|\+[1-9]\d{0,2}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}"
        r"|\(?[2-9]\d\d\)?[ .-]{1,2}\d{3}[ .-]\d{4})(?:[^\w-]|$)",
        personal=True,
    ),
)

_BY_ID = {rule.id: rule for rule in (*_SECRETS, *_PERSONAL)}
PERSONAL = tuple(rule.id for rule in _PERSONAL)
"""Ids of the built-in rules that are used only if they are named."""


def builtin(*also: str) -> tuple[Rule, ...]:
    """The built-in rules for secrets, and those for personal data that are named: ``email``, ``phone``."""
    return (*_SECRETS, *dict.fromkeys(rule for rule in map(builtin_rule, also) if rule not in _SECRETS))


def builtin_rule(id: str) -> Rule:
    """The built-in rule with this id. Invalid if there is none."""
    if not isinstance(id, str) or id not in _BY_ID:
        raise Invalid(f"unknown built-in redaction rule {clip(str(id))}", hint=f"Known rules: {', '.join(_BY_ID)}.")
    return _BY_ID[id]


def is_builtin(rule: object) -> bool:
    """True for a built-in rule, unchanged."""
    return any(one is rule for one in _BY_ID.values())
