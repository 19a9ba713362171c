"""Ids that follow from what they name, so that doing a thing twice names it the same."""

from __future__ import annotations

from hashlib import sha256


def uuid_shaped(digest: bytes) -> str:
    """The first 16 bytes of a digest in the shape of a version 4 UUID, as V1 ids must have."""
    raw = bytearray(digest[:16])
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derived_id(prefix: str, *parts: str) -> str:
    """`<prefix>-<uuid>` that is the same whenever the parts are the same."""
    return f"{prefix}-{uuid_shaped(sha256(chr(0).join(parts).encode()).digest())}"
