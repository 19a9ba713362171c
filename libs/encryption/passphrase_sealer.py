"""Seals texts with a passphrase, so that a file can carry them from one server to another.

The key is derived by scrypt from the passphrase and a salt, which stands before the sealed text.
"""

from __future__ import annotations

import base64
import binascii
import os

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from libs.contracts.sealed_text import SEALED
from libs.encryption.sealer import CannotOpen

SALT_BYTES = 16
# About 32 MiB and a tenth of a second for each guess.
COST, BLOCK_SIZE, PARALLEL = 2**15, 8, 1
PASSPHRASE_CHARS_MIN, PASSPHRASE_CHARS_MAX = 8, 1_000


def seal_with(passphrase: str, text: str) -> str:
    """A text, sealed; another one each time. It takes a tenth of a second: call it in a thread."""
    salt = os.urandom(SALT_BYTES)
    token = fernet(passphrase, salt).encrypt(text.encode("utf-8", "surrogatepass"))
    return SEALED + base64.urlsafe_b64encode(salt + base64.urlsafe_b64decode(token)).decode()


def open_with(passphrase: str, sealed: str) -> str:
    """The text that was sealed with the same passphrase. Raises CannotOpen; call it in a thread."""
    try:
        raw = base64.urlsafe_b64decode(sealed.removeprefix(SEALED))
        salt, token = raw[:SALT_BYTES], base64.urlsafe_b64encode(raw[SALT_BYTES:])
        opened = fernet(passphrase, salt).decrypt(token)
    except (InvalidToken, binascii.Error, ValueError):
        raise CannotOpen("the passphrase is another one than it was sealed with") from None
    return opened.decode("utf-8", "surrogatepass")


def fernet(passphrase: str, salt: bytes) -> Fernet:
    """The cipher of a passphrase."""
    derive = Scrypt(salt=salt, length=32, n=COST, r=BLOCK_SIZE, p=PARALLEL)
    return Fernet(base64.urlsafe_b64encode(derive.derive(passphrase.encode())))
