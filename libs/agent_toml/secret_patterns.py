"""Patterns of secrets in texts: a word that stands in each, and the whole pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Documentation, tests and templates have texts that only look like keys.
EXAMPLE = re.compile(
    r"example|placeholder|your[-_]?|dummy|changeme|<|x{4,}|\*{3,}|\.{3}|\$\{", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """One kind of secret. A text without the hint has none of it."""

    kind: str
    hint: str
    pattern: re.Pattern[str]


def _kind(kind: str, hint: str, pattern: str) -> SecretPattern:
    return SecretPattern(kind, hint, re.compile(pattern))


SECRET_PATTERNS = (
    _kind("a key of Anthropic", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    _kind("a key of OpenAI", "sk-", r"\bsk-(?!ant-)(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}"),
    _kind("a key of AWS", "IA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _kind("a key of Google", "AIza", r"\bAIza[A-Za-z0-9_-]{35}"),
    _kind("a token of GitHub", "gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    _kind("a token of GitHub", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    _kind("a token of GitLab", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    _kind("a token of Slack", "xox", r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    _kind("a webhook of Slack", "hooks.slack.com", r"hooks\.slack\.com/services/T[\w/]{20,}"),
    _kind("a key of Stripe", "k_live_", r"\b[sr]k_live_[A-Za-z0-9]{16,}"),
    _kind("a key of Groq", "gsk_", r"\bgsk_[A-Za-z0-9]{30,}"),
    _kind("a token of Hugging Face", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    _kind("a key of SendGrid", "SG.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    _kind("a token of npm", "npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    _kind("a token of PyPI", "pypi-", r"\bpypi-[A-Za-z0-9_-]{40,}"),
    _kind("a signed token", "eyJ", r"\beyJ[\w-]{15,500}\.eyJ[\w-]{15,2000}\.[\w-]{15}"),
    _kind("a private key", "PRIVATE KEY", r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"),
    _kind(
        "an address with a password",
        "://",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}:[^\s/@]{1,200}@",
    ),
    _kind(
        "a password",
        "",
        r"(?i)\b(?:password|passwd|api[_-]?key|secret[_-]?key|access[_-]?token)[\"']?\s*[:=]\s*"
        r"[\"']?(?=[^\s\"']{0,80}\d)[A-Za-z0-9!@#%^&*()_+/=.-]{12,200}",
    ),
)
_PASSWORD_WORDS = ("password", "passwd", "api", "secret", "token")
SECRET_NAME = re.compile(
    r"(?i)(token|secret|password|passwd|api[-_]?key|^authorization$|^x-api-key$|private[-_]?key"
    r"|credential|^cookie$)"
)


def secret_in(text: str) -> tuple[str, int] | None:
    """The kind of secret in a text, and its place; None if there is none."""
    lower: str | None = None
    for kind in SECRET_PATTERNS:
        if kind.hint:
            if kind.hint not in text:
                continue
        else:
            lower = text.lower() if lower is None else lower
            if not any(word in lower for word in _PASSWORD_WORDS):
                continue
        for match in kind.pattern.finditer(text):
            if not EXAMPLE.search(match[0]):
                return kind.kind, match.start()
    return None
