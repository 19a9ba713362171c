"""Find secrets, attacks and dangerous addresses in the texts of a definition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from libs.agent_toml.reporting import name_of
from libs.agent_toml.secret_patterns import SECRET_NAME, secret_in
from libs.agent_toml.security_subject import Finding, Subject
from libs.agent_toml.tables import REFERENCE
from libs.agent_toml.toml_positions import Path

METADATA_HOSTS = re.compile(
    r"169\.254\.\d+\.\d+|metadata\.google\.internal|metadata\.azure\.com|100\.100\.100\.200"
    r"|\[?fd00:ec2::254\]?|0xa9fea9fe|2852039166",
    re.IGNORECASE,
)
HOST = re.compile(r"[a-z]+://(?:[^/?#@]*@)?(\[[^\]]*\]|[^:/?#]*)", re.IGNORECASE)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
INVISIBLE = re.compile("[\u200b\u2060\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
INJECTIONS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+)?"
    r"(?:previous|prior|earlier|above|system|safety)\s+"
    r"(?:instructions?|prompts?|rules?|guidelines?|messages?)"
    r"|\byou are now (?:in )?(?:dan|developer mode|jailbroken|unrestricted)\b"
    r"|\b(?:do anything now|developer mode enabled|jailbreak mode)\b"
    r"|\b(?:reveal|print|repeat|output)\s+(?:your|the)\s+(?:system|hidden|secret)\s+"
    r"(?:prompt|instructions?|api keys?|keys?)"
    r"|\byou have no (?:restrictions|rules|guidelines|limits)\b"
    r"|\bsend (?:all |every )?(?:the )?(?:secrets?|passwords?|api keys?|credentials?)\s+to\b"
    r"|<\|im_start\|>|<\|im_end\|>|\[/?INST\]|<<SYS>>",
    re.IGNORECASE,
)
INJECTION_HINTS = (
    *("ignore", "disregard", "forget", "override", "you are now", "do anything now"),
    *("developer mode", "jailbreak", "reveal", "print", "repeat", "output", "you have no"),
    *("send ", "<|im_", "[inst]", "[/inst]", "<<sys>>"),
)
DENIAL = re.compile(
    r"(?:\b(?:never|not|refuse|decline|reject|if)\b|n't\b)[^.!?\n]*$", re.IGNORECASE
)
DENIAL_CHARS = 60


def texts_that_match(
    pattern: re.Pattern[str], fields: tuple[str, ...], title: str
) -> Callable[[Subject], Iterator[Finding]]:
    """A detector of texts that a pattern of an operator is in: those of the fields whose names
    begin like this, or of all where none are named."""

    def detect(subject: Subject) -> Iterator[Finding]:
        for path, text in subject.texts:
            name = name_of(path)
            if name.startswith(fields or "") and pattern.search(text):
                yield Finding(path, f"{name}: {title}")

    return detect


def secrets_in_texts(subject: Subject) -> Iterator[Finding]:
    """Keys, tokens and passwords in any text."""
    for path, text in subject.texts:
        found = secret_in(text)
        if found is not None:
            line = text.count("\n", 0, found[1]) + 1
            where = f", in its line {line}" if "\n" in text else ""
            yield Finding(path, f"{name_of(path)} has {found[0]} in it{where}")


def plain_values(subject: Subject) -> Iterator[Finding]:
    """Headers and variables that are secrets by their names, with values."""
    for index, server in enumerate(subject.definition.mcp_servers):
        for key, table in (("headers", server.headers), ("env", server.env)):
            for name, value in table.items():
                if value and SECRET_NAME.search(name) and not REFERENCE.search(value):
                    path: Path = ("mcp_servers", index, key, name)
                    yield Finding(path, f"`{name}` of `{server.name}` has its value in the file")


def plain_http(subject: Subject) -> Iterator[Finding]:
    """Addresses of other machines without TLS."""
    for path, address in subject.addresses():
        if address.lower().startswith("http://") and _host(address) not in LOCAL_HOSTS:
            yield Finding(path, f"{name_of(path)} begins with http://")


def _host(address: str) -> str:
    found = HOST.match(address)
    return found[1].strip("[]").lower() if found else ""


def metadata_addresses(subject: Subject) -> Iterator[Finding]:
    """Addresses of the metadata service of a cloud, also in arguments and headers."""
    for path, text in subject.texts:
        if path[0] in ("mcp_servers", "schedules") and METADATA_HOSTS.search(text):
            yield Finding(path, f"{name_of(path)} names the metadata service of a cloud")


def injections(subject: Subject) -> Iterator[Finding]:
    """Sentences that are known to turn models against their instructions."""
    for path, text in subject.texts:
        if path[0] == "tool" and path[-1] == "source":
            continue
        lower = text.lower()
        if not any(hint in lower for hint in INJECTION_HINTS):
            continue
        for match in INJECTIONS.finditer(text):
            before = text[max(0, match.start() - DENIAL_CHARS) : match.start()]
            if DENIAL.search(before) is None:
                yield Finding(path, f"{name_of(path)} says '{match[0][:60]}'")
                break


def invisible_characters(subject: Subject) -> Iterator[Finding]:
    """Characters that nobody sees, and that turn the direction of the text."""
    for path, text in subject.texts:
        found = None if text.isascii() else INVISIBLE.search(text)
        if found is not None:
            line = text.count("\n", 0, found.start()) + 1
            character = f"U+{ord(found[0]):04X}"
            yield Finding(path, f"{name_of(path)} has the character {character} in line {line}")
