"""Text that can be kept: Postgres has no NUL, and UTF-8 no half of a surrogate pair."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text without what no database keeps."""
    return UNSTORABLE.sub("", text)


# What somebody else says, as far as it can be kept.
StorableText = Annotated[str, BeforeValidator(storable)]
