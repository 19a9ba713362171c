"""Secrets of clients: sealed as soon as they were read, opened for who may read what they belong
to."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from pydantic_core import to_json

from libs.contracts.sealed_text import FORM
from libs.encryption.sealer import CannotOpen, Sealer
from services.api.http.error_responses import Problem

log = logging.getLogger(__name__)

SECRETS_MAX = 100
SECRET_BYTES_MAX = 32 << 10
SECRETS_BYTES_MAX = 128 << 10
NAME = r"[A-Za-z_][A-Za-z0-9_]{0,255}"
# Around a sealed text where a statement puts it into a document. No JSON has this character as it
# is, so nothing that a client wrote, wherever it stands, is taken for a secret of ours.
MARK = "\x01"
MARKED = re.compile(f"{MARK}({FORM}){MARK}".encode())


def sealed_values(sealer: Sealer, field: str, given: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with sealed values; raises the 422 that says what is wrong with
    them, without their values."""
    problem = unfit(given)
    if problem:
        raise Problem(422, {"detail": f"`{field}`: {problem}"})
    return {name: sealer.seal(value) for name, value in given.items()}


def unfit(given: Mapping[str, str]) -> str:
    """Why these cannot be the environment variables of a program; empty if they can."""
    if len(given) > SECRETS_MAX:
        return f"at most {SECRETS_MAX} variables"
    for name, value in given.items():
        if re.fullmatch(NAME, name) is None:
            return (
                f"{name[:50]!r} is no name of an environment variable: use letters, digits and"
                " '_', 256 at most, and no digit first"
            )
        if len(value.encode("utf-8", "surrogatepass")) > SECRET_BYTES_MAX:
            return f"the value of {name} has more than {SECRET_BYTES_MAX} bytes"
    total = sum(len(value.encode("utf-8", "surrogatepass")) for value in given.values())
    if total > SECRETS_BYTES_MAX:
        return f"all values together have {total} bytes, and at most {SECRETS_BYTES_MAX} may be"
    return ""


def with_opened_secrets(sealer: Sealer, document: bytes) -> bytes:
    """A document with its secrets as JSON strings; one whose key is lost is empty."""
    if MARK.encode() not in document:
        return document
    return MARKED.sub(lambda found: to_json(open_secret(sealer, found[1].decode())), document)


def open_secret(sealer: Sealer, sealed: str) -> str:
    """A secret, or an empty text if its key is lost."""
    try:
        return sealer.open(sealed)
    except CannotOpen as lost:
        log.warning("a secret is shown as an empty text: %s", lost)
        return ""
