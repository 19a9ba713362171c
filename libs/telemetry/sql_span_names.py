"""Names of SQL statements' spans: the action, in a few words."""

from __future__ import annotations

import re
from functools import lru_cache

SUMMARY_CHARS_MAX = 120
STATEMENTS_REMEMBERED_MAX = 512

# What a statement does to which table. Tables have a schema, which tells them from the names that
# a statement gives to its own parts.
DOES = re.compile(
    r"\b(?:(insert) into|(update)|(delete) from|(select)\b(?:(?!\bselect\b).)*?\bfrom)"
    r"\s+(\w+\.\w+)",
    re.IGNORECASE | re.DOTALL,
)
WRITES = ("INSERT", "UPDATE", "DELETE")


@lru_cache(STATEMENTS_REMEMBERED_MAX)
def summary_of(text: str) -> str:
    """`INSERT agent.events, agent.inbox`, or the text itself where it is no SQL. What is written
    matters more than what is read for it."""
    done: dict[str, dict[str, None]] = {}
    for *verbs, table in DOES.findall(text):
        verb = next(filter(None, verbs)).upper()
        done.setdefault(verb, {})[table] = None
    kept = {verb: done[verb] for verb in WRITES if verb in done} or done
    words = "; ".join(f"{verb} {', '.join(tables)}" for verb, tables in kept.items())
    return (words or text)[:SUMMARY_CHARS_MAX]
