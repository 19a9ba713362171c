"""Limits on the size of requests: every limit of the V1 surface, in one place.

Nobody who uses V1 honestly meets one. They keep every row, index entry and event storable: a name
of any characters fits an entry of a B-tree (2,704 bytes), a number fits the column that it is
compared with. `docs/limits.md` lists which field has which.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema, to_json, to_jsonable_python

# Texts, in characters
NAME_CHARS_MAX = 500
TEXT_CHARS_MAX = 100_000
PROMPT_CHARS_MAX = 1_000_000
BLOCK_VALUE_CHARS_MAX = 1_000_000
SEARCH_CHARS_MAX = 1_000

# Lists, in items
NAMES_MAX = 1_000
MESSAGES_MAX = 1_000

# Whole numbers
INTEGER_MAX = 2**31 - 1

# JSON
JSON_BYTES_MAX = 512 * 1024
JSON_DEPTH_MAX = 32
JSON_KEYS_MAX = 50_000
CONTENT_BYTES_MAX = 6 * 1024 * 1024

# A body as a whole
BODY_DEPTH_MAX = 64
BODY_VALUES_MAX = 100_000
INTEGER_DIGITS_MAX = 100
INTEGER_LIMIT = 10**INTEGER_DIGITS_MAX

type Path = tuple[str | int, ...]


def check_json_size(
    value: Any,
    bytes_max: int = JSON_BYTES_MAX,
    depth_max: int = JSON_DEPTH_MAX,
    keys_max: int = JSON_KEYS_MAX,
) -> None:
    """Raise the error of a validator for a value, plain or of models, that is too large as JSON."""
    plain = to_jsonable_python(value)
    count = -1  # without the value itself
    for depth, level in enumerate(levels(plain)):
        count += len(level)
        if depth > depth_max:
            raise too_large("json_too_deep", f"Value should have at most {depth_max} levels")
        if count > keys_max:
            raise too_large(
                "json_too_many_keys", f"Value should have at most {keys_max} keys and items"
            )
    if len(to_json(plain)) > bytes_max:
        raise too_large("json_too_long", f"Value should have at most {bytes_max} bytes as JSON")


def too_large(kind: str, words: str) -> PydanticCustomError:
    """The error of a validator."""
    return PydanticCustomError(kind, words)


@dataclass(frozen=True, slots=True)
class JsonLimit:
    """Marks a field whose value has a size as JSON; the schema of the field says so."""

    bytes_max: int = JSON_BYTES_MAX
    depth_max: int = JSON_DEPTH_MAX
    keys_max: int = JSON_KEYS_MAX

    def check(self, value: Any) -> Any:
        """The value, if it is not too large."""
        if value is not None:
            check_json_size(value, self.bytes_max, self.depth_max, self.keys_max)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        words = (
            f"{self.bytes_max:,} bytes as JSON, {self.depth_max} levels, "
            f"{self.keys_max:,} keys and items"
        )
        return {**handler(schema), "x-limit": words}


type Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
type Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
type Prompt = Annotated[str, Field(max_length=PROMPT_CHARS_MAX)]
type BlockValue = Annotated[str, Field(max_length=BLOCK_VALUE_CHARS_MAX)]
type SearchText = Annotated[str, Field(max_length=SEARCH_CHARS_MAX)]
type Names = Annotated[list[Name], Field(max_length=NAMES_MAX)]
type Integer = Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)]
type Integers = Annotated[list[Integer], Field(max_length=NAMES_MAX)]
type Metadata = Annotated[dict[str, JsonValue], JsonLimit()]


def unreadable(data: JsonValue) -> tuple[Path, str] | None:
    """Where a body has something that no field may have, and what may be there instead."""
    count = -1  # without the body itself
    for depth, level in enumerate(levels(data)):
        count += len(level)
        if count > BODY_VALUES_MAX:
            return (), f"A body should have at most {BODY_VALUES_MAX} keys and items"
        if depth > BODY_DEPTH_MAX or not all(map(is_readable, level)):
            return first_unreadable(data)
    return None


def is_readable(value: JsonValue) -> bool:
    """Whether a number can be kept; other values can."""
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, int) or abs(value) < INTEGER_LIMIT


def first_unreadable(data: JsonValue) -> tuple[Path, str] | None:
    """The first value that is too deep, or a number that cannot be kept, and what may be there."""
    for path, value in walk(data):
        if len(path) > BODY_DEPTH_MAX:
            return path, f"A body should have at most {BODY_DEPTH_MAX} levels"
        if isinstance(value, float) and not isfinite(value):
            return path, "Input should be a number between -1.8e308 and 1.8e308"
        if not is_readable(value):
            return path, f"Input should be a number of at most {INTEGER_DIGITS_MAX} digits"
    return None


def levels(value: JsonValue) -> Iterator[list[JsonValue]]:
    """The values within a JSON value, by how many lists and objects each stands in: the value
    itself first."""
    level = [value]
    while level:
        yield level
        above, level = level, []
        for each in above:
            if isinstance(each, dict):
                level += each.values()
            elif isinstance(each, list):
                level += each


def walk(value: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    """Everything within a JSON value and where it stands, however deep that is."""
    waiting: list[tuple[Path, JsonValue]] = [((), value)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            waiting.extend(((*path, key), below) for key, below in value.items())
        elif isinstance(value, list):
            waiting.extend(((*path, index), below) for index, below in enumerate(value))
