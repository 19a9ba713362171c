"""Seals secrets before anything stores them, and opens them where they are used, with Fernet
(AES-128-CBC with HMAC-SHA256)."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from libs.contracts.environment_parsing import Environment
from libs.contracts.sealed_text import SEALED
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealing_keys import read_keys


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
        return cls(read_keys(environment))

    def keyed_digest(self, *parts: bytes) -> str:
        """A digest of a content that nobody can test guesses against without the keys. It is made
        with the oldest key, which a new one leaves as it is."""
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
