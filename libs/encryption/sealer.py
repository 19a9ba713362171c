"""Seals secrets before anything stores them, and opens them where they are used.

The keys are Fernet's (AES-128-CBC with HMAC-SHA256): 32 random bytes, URL-safe base64. The first
one seals, all of them open, so that a new key is put before the others and nothing is lost.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from libs.contracts.environment_parsing import Environment, WrongSetting, require
from libs.contracts.sealed_text import SEALED
from libs.contracts.service_registry import ENCRYPTION_KEYS

KEYS_MAX = 32


class CannotOpen(Exception):
    """A text was sealed with a key that is not here, or is no sealed text."""


class Sealer:
    """Seals with the first of its keys, and opens with any of them."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.fernet = MultiFernet([Fernet(key) for key in keys])
        self.digest_key = sha256(b"fingerprints\0" + keys[-1].encode()).digest()

    @classmethod
    def from_environment(cls, environment: Environment) -> Sealer:
        """With the keys of HEELER_ENCRYPTION_KEYS, comma between them. Raises MissingSetting, and
        WrongSetting, which does not show the value."""
        keys = [key.strip() for key in require(environment, ENCRYPTION_KEYS).split(",")]
        try:
            if len(keys) > KEYS_MAX:
                raise ValueError
            return cls(keys)
        except ValueError:  # what the base64 decoder raises is one, too
            raise WrongSetting(
                f"{ENCRYPTION_KEYS} has something that is no key: each is 32 bytes as URL-safe"
                f" base64, with a comma between two, {KEYS_MAX} at most (its value is not shown)"
            ) from None

    def keyed_digest(self, *parts: bytes) -> str:
        """What tells contents from each other, and lets nobody without the keys try what they may
        be. It is made with the oldest key, which a new one leaves as it is."""
        digest = hmac.new(self.digest_key, digestmod=sha256)
        for part in parts:
            digest.update(part)
        return digest.hexdigest()

    def seal(self, text: str) -> str:
        """The text as it may be stored and sent, another one each time. Whatever is given is
        sealed, also what looks as if it were."""
        return SEALED + self.fernet.encrypt(text.encode("utf-8", "surrogatepass")).decode()

    def open(self, sealed: str) -> str:
        """The text that was sealed. Raises CannotOpen."""
        if not sealed.startswith(SEALED):
            raise CannotOpen("this is no sealed text")
        try:
            opened = self.fernet.decrypt(sealed.removeprefix(SEALED).encode("utf-8", "replace"))
        except InvalidToken:
            raise CannotOpen(
                f"no key in {ENCRYPTION_KEYS} opens it: set the secret again"
            ) from None
        return opened.decode("utf-8", "surrogatepass")


def new_key() -> str:
    """A key that nobody has seen."""
    return Fernet.generate_key().decode()
