"""What a model says as text that can be kept: Postgres has no NUL, UTF-8 no half of a pair."""

from __future__ import annotations

import json
import re

from libs.contracts.message import Json

SURROGATE = re.compile(r"[\ud800-\udfff]")
ESCAPED = re.compile(r"\\u(0000|[dD][89a-fA-F])")


def storable(text: str) -> str:
    """The text without NULs, and with � for each half of a surrogate pair."""
    return SURROGATE.sub("�", text.replace("\x00", ""))


def storable_arguments(text: str) -> str:
    """The arguments of a tool call, where the same may hide in escapes; text that is not JSON
    stays as it is, so that the model is told."""
    text = storable(text)
    if not ESCAPED.search(text):
        return text
    try:
        return json.dumps(cleaned(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return text


def cleaned(data: Json) -> Json:
    """The same data with all its text storable."""
    match data:
        case str():
            return storable(data)
        case list():
            return [cleaned(item) for item in data]
        case dict():
            return {storable(key): cleaned(value) for key, value in data.items()}
    return data
