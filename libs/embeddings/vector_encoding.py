"""Vectors as text: in events, and as Postgres reads them."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode

from libs.embeddings.ports import Vector

HALF_BYTES = 2


def pack_vector(vector: Vector) -> str:
    """The vector as events hold it: base64 of its numbers as float16, the small end first."""
    return b64encode(struct.pack(f"<{len(vector)}e", *vector)).decode()


def unpack_vector(text: str) -> list[float]:
    """The numbers of a packed vector. Raises ValueError for a text that is none."""
    halves = b64decode(text, validate=True)
    if len(halves) % HALF_BYTES:
        raise ValueError("half a number at the end of a packed vector")
    return list(struct.unpack(f"<{len(halves) // HALF_BYTES}e", halves))


def halfvec(vector: Vector) -> str:
    """The vector as the `halfvec` of Postgres reads it; five digits are all that a float16 has."""
    return f"[{','.join([f'{number:.5g}' for number in vector])}]"
