"""Which member a text of a model names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

# Letters of scripts that put spaces between words, or of those that do not: each ends the other.
WORD = re.compile(r"[^\W_\u2e80-\U0010ffff]+|(?:[\u2e80-\U0010ffff](?<!\W))+")
NAME_WORDS_MAX = 20
# From here on letters are of scripts that put no spaces between words.
UNSPACED = "\u2e80"
THOUGHTS_BEGIN, THOUGHTS_END = "<think>", "</think>"

type Words = tuple[str, ...]


def without_thoughts(text: str) -> str:
    """What a model says, without the thoughts that some write in front of it."""
    _, end, said = text.rpartition(THOUGHTS_END)
    return "" if not end and text.lstrip().startswith(THOUGHTS_BEGIN) else said


def words_of(text: str) -> Words:
    """The words of a text or name as they are compared: in any case, with any marks around and
    between them, as in `Story\\_Writer`, **Story Writer** and "story-writer"."""
    return tuple(WORD.findall(normalize("NFKC", text).casefold()))


def named_in(text: str, names: Mapping[str, Sequence[str]]) -> set[str]:
    """The keys of `names` of which a text has one of the names, as whole words; of names that lie
    one inside the other only the longest."""
    by_words: dict[Words, set[str]] = {}
    for key, own in names.items():
        for name in own:
            by_words.setdefault(words_of(name)[:NAME_WORDS_MAX], set()).add(key)
    by_words.pop((), None)
    found = {key for keys in occurring(words_of(text), by_words) for key in keys}
    return found | unspaced_in(text, names)


def occurring(said: Words, by_words: Mapping[Words, set[str]]) -> Iterator[set[str]]:
    """The values of the keys that stand in a text, from its beginning on."""
    place, longest = 0, max(map(len, by_words), default=0)
    while place < len(said):
        sizes = range(min(longest, len(said) - place), 0, -1)
        size = next((n for n in sizes if said[place : place + n] in by_words), 0)
        if size:
            yield by_words[said[place : place + size]]
        place += size or 1


def unspaced_in(text: str, names: Mapping[str, Sequence[str]]) -> set[str]:
    """The same for names in scripts that put no spaces between words."""
    said = normalize("NFKC", text).casefold()
    found: dict[str, set[str]] = {}
    for key, own in names.items():
        for name in own:
            folded = normalize("NFKC", name).casefold()
            if folded and max(folded) >= UNSPACED and folded in said:
                found.setdefault(folded, set()).add(key)
    return {
        key
        for name, keys in found.items()
        for key in keys
        if not any(name != other and name in other for other in found)
    }
