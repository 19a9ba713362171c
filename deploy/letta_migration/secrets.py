"""Values that a Letta server has encrypted, and how they are opened.

An encrypted column holds base64 of a salt (16 bytes), a nonce (12) and the AES-256-GCM ciphertext
with its tag (16); the key is PBKDF2-HMAC-SHA256 of LETTA_ENCRYPTION_KEY and the salt, with 100,000
rounds. A server without a key writes the plain value into the same column.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
ROUNDS = 100_000


class Closed(Exception):
    """A value is encrypted, and the key is not there or another one."""


def looks_encrypted(value: str) -> bool:
    """Whether a value has the form of an encrypted one."""
    try:
        return len(b64decode(value, validate=True)) > SALT_BYTES + NONCE_BYTES + TAG_BYTES
    except (NotBase64, ValueError):
        return False


@lru_cache(1_000)
def derived_key(key: str, salt: bytes) -> bytes:
    """The key of one value."""
    kdf = PBKDF2HMAC(algorithm=SHA256(), length=KEY_BYTES, salt=salt, iterations=ROUNDS)
    return kdf.derive(key.encode())


class Opener:
    """Opens encrypted values with the key of the old server, if that is known. With `assume_plain`
    the old server had no key, and wrote everything as it is."""

    def __init__(self, key: str | None, *, assume_plain: bool = False) -> None:
        self.key = key or None
        self.assume_plain = assume_plain

    def open(self, encrypted: str | None, plain: str | None = None) -> str | None:
        """The value of a column and of the older one beside it, which is not encrypted. Raises
        Closed."""
        if encrypted is None:
            return plain or None
        if self.assume_plain or not looks_encrypted(encrypted):
            return encrypted or plain or None
        if self.key is None:
            raise Closed(
                "it looks encrypted: set LETTA_ENCRYPTION_KEY, or say --unencrypted if the old"
                " server had none"
            )
        sealed = b64decode(encrypted)
        salt, nonce = sealed[:SALT_BYTES], sealed[SALT_BYTES : SALT_BYTES + NONCE_BYTES]
        try:
            opened = AESGCM(derived_key(self.key, salt)).decrypt(
                nonce, sealed[SALT_BYTES + NONCE_BYTES :], None
            )
            return opened.decode()
        except (InvalidTag, UnicodeDecodeError):
            raise Closed("LETTA_ENCRYPTION_KEY is not the key that it was encrypted with") from None
