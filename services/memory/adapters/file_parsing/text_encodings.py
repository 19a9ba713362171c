"""Which encoding a text is in, where it does not say so."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import IO

CHUNK_BYTES = 64 * 1024
SAMPLE_BYTES = 256 * 1024
UTF_8 = "utf-8"
# What a text that is not UTF-8 is in, as long as nothing speaks for another encoding.
USUAL = "cp1252"
# Two encodings of the same languages, which the detector confuses: they differ in few letters.
LATIN_2_FORMS = ("cp1250", "iso8859_2")
SIGN_IN_WORD = re.compile(r"(?<=[^\W\d_])[^\w\s](?=[^\W\d_])")
ONE_BYTE = (
    USUAL,
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "iso8859_2",
    "iso8859_5",
    "koi8_r",
    "cp866",
)
MORE_BYTES = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
TWO_BYTES = ("utf_16_le", "utf_16_be")

# The floor of what the detector has to be sure of: how much of a text may look like a mess, how
# much must look like a language; or, in encodings whose languages it does not count, how many bytes
# must fit.
MESS_MAX = 0.1
LANGUAGE_MIN = 0.25
FITTING_BYTES_MIN = 32
# Of a text of two bytes a character: how many first halves it has, such as 0 for Latin letters, 4
# for Cyrillic ones and 0x20 for dashes and quotes.
KINDS_OF_CHARACTERS_MAX = 4

CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
# The beginning of a character that is cut off, or a byte that is part of none.
BROKEN = re.compile(rb"[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{1,2}|[\x80-\xff]")
# Of the usual encoding, what stands in no text: two bytes that UTF-8 never has.
UNLIKELY = b"\xfe\xff"


def encoding_of(file: IO[bytes], declared: str | None = None) -> str:
    """The encoding of a text without a mark, from where the file stands: UTF-8 if it is valid, else
    what it declares. A text with bytes that are no UTF-8 may be UTF-8 all the same, with a few that
    are broken."""
    decoder = codecs.getincrementaldecoder(UTF_8)("strict")
    sample = bytearray()
    is_utf8 = True
    while raw := file.read(CHUNK_BYTES):
        if is_utf8:
            is_utf8 = decodes(decoder, raw)
        if len(sample) < SAMPLE_BYTES:
            sample += b"".join(line for line in raw.splitlines(keepends=True) if not line.isascii())
    if is_utf8 and decodes(decoder, b"", final=True):
        return UTF_8
    if declared is not None:
        return declared
    if len(sample) > SAMPLE_BYTES:
        # Behind one of these no character is cut in two, in no encoding.
        end = max(sample.rfind(mark, 0, SAMPLE_BYTES) for mark in (b"\n", b" ", b",", b"."))
        del sample[end + 1 or SAMPLE_BYTES :]
    return guess_encoding(bytes(sample))


def decodes(decoder: codecs.IncrementalDecoder, raw: bytes, *, final: bool = False) -> bool:
    """Whether the next bytes are what they must be."""
    try:
        decoder.decode(raw, final)
    except UnicodeDecodeError:
        return False
    return True


def guess_encoding(sample: bytes) -> str:
    """The encoding of a text that is not all valid UTF-8: still UTF-8, if no more bytes are broken
    than characters are whole; else the encoding that the detector is sure of; else the usual one,
    if the text can be in it."""
    rest = CHARACTER.sub(b" ", sample)
    broken = len(BROKEN.findall(rest.translate(None, UNLIKELY)))
    whole = len(CHARACTER.findall(sample))
    if broken <= whole:
        return UTF_8
    found = detect_encoding(sample, (*ONE_BYTE, *MORE_BYTES))
    if found is None and not any(byte in sample for byte in UNLIKELY) and is_in(sample, USUAL):
        return USUAL
    if found in LATIN_2_FORMS:
        signs = {encoding: signs_in_words(sample, encoding) for encoding in LATIN_2_FORMS}
        return min(LATIN_2_FORMS, key=lambda encoding: (signs[encoding], encoding != found))
    return found or UTF_8


def signs_in_words(sample: bytes, encoding: str) -> int:
    """The number of signs between two letters in an encoding: few in the right one."""
    return len(SIGN_IN_WORD.findall(sample.decode(encoding, "replace")))


def detect_encoding(sample: bytes, encodings: Sequence[str]) -> str | None:
    """The one of these encodings that the detector is sure of; None if it is sure of none. Where
    several fit equally, it is the one with the most letters, or else the usual one."""
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=list(encodings))
    best = matches.best()
    if best is None or best.chaos > MESS_MAX:
        return None
    if best.coherence < LANGUAGE_MIN:
        high = sum(byte >= 0x80 for byte in sample)
        fits = best.encoding in MORE_BYTES and high >= FITTING_BYTES_MIN
        return best.encoding if fits else None
    good = [
        encoding
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence
        for encoding in match.could_be_from_charset
    ]
    return max(good, key=lambda encoding: (letters_in(sample, encoding), encoding == USUAL))


def letters_in(sample: bytes, encoding: str) -> int:
    """The number of letters in an encoding: no word has a sign in its middle."""
    return sum(char.isalpha() for char in sample.decode(encoding, "replace"))


def is_in(sample: bytes, encoding: str) -> bool:
    """Whether each byte means something in an encoding."""
    try:
        sample.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def encoding_of_pairs(sample: bytes) -> str | None:
    """The encoding of a text of two bytes a character, too short for the detector: the one in which
    NUL is a first half only, characters are of few kinds, and all of them are shown."""
    for encoding, first in zip(TWO_BYTES, (1, 0), strict=True):
        kinds = set(sample[first::2])
        if 0 not in kinds or 0 in sample[1 - first :: 2] or len(kinds) > KINDS_OF_CHARACTERS_MAX:
            continue
        text = sample.decode(encoding, "replace")
        if all(char.isprintable() or char in "\t\r\n" for char in text):
            return encoding
    return None
