"""The keys that seal secrets: 32 random bytes each, as URL-safe base64. The first one seals, all of
them open, so that a new key is put before the others and nothing is lost."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from libs.contracts.environment_parsing import Environment, WrongSetting, require
from libs.contracts.service_registry import ENCRYPTION_KEYS

KEYS_MAX = 32
KEY_BYTES = 32


def new_key() -> str:
    """A new key, as the setting takes it."""
    return urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


def read_keys(environment: Environment) -> list[str]:
    """The keys of HEELER_ENCRYPTION_KEYS, comma between them. Raises MissingSetting, and
    WrongSetting, which does not show the value."""
    keys = [key.strip() for key in require(environment, ENCRYPTION_KEYS).split(",")]
    if len(keys) > KEYS_MAX or not all(map(is_key, keys)):
        raise WrongSetting(
            f"{ENCRYPTION_KEYS} has something that is no key: each is 32 bytes as URL-safe"
            f" base64, with a comma between two, {KEYS_MAX} at most (its value is not shown)"
        )
    return keys


def is_key(text: str) -> bool:
    """Whether a text is a key."""
    try:
        return len(urlsafe_b64decode(text)) == KEY_BYTES
    except ValueError:  # what the decoder raises is one, too
        return False
