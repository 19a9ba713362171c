"""Read what a client sent: bodies, query parameters, ids; and say what is wrong with them."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, TypeAliasType, get_args, get_origin

from litestar import Request
from litestar.datastructures import State
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from libs.contracts.bus_messages import Context, Json, JsonObject
from libs.contracts.letta import error_bodies
from libs.contracts.letta.request_size_limits import Name, Path, unreadable, walk
from libs.contracts.outside_texts import decode_text
from services.api.http.callers import caller_of
from services.api.http.error_responses import Problem

AnyRequest = Request[object, object, State]

PAGE_ITEMS_MAX = 1_000
# Where a page of large items would be longer it ends before, and the cursors lead on.
PAGE_BYTES_MAX = 8 << 20
LONG_PAGE_BYTES_MAX = 48 << 20  # of agents or blocks: less than a client may leave unread
MARKS = (BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)  # as PowerShell writes them
NUL_ESCAPED = b"\\u0000"
EXPLAINED_BYTES_MAX = 256 * 1024  # of a body that is no JSON
SURROGATE = re.compile("[\ud800-\udfff]")
HALF_OF_A_PAIR = "Input has half of a surrogate pair, which is no character: leave it out"
REQUEST_ID = re.compile(r"[!-~]{1,255}")
WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")


class Query(BaseModel):
    """Query parameters; unknown ones are ignored, as in V1."""

    model_config = ConfigDict(extra="ignore")


class Page(Query):
    """Which part of a list: cursors are ids and do not belong to the page themselves."""

    before: Name | None = None
    after: Name | None = None
    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order: Literal["asc", "desc"] = "desc"


async def body_of[M: BaseModel](request: AnyRequest, model: type[M]) -> M:
    """The body as a model; raises the 422 that says which field is wrong."""
    return parse(await request.body(), model)


def parse[M: BaseModel](raw: bytes, model: type[M]) -> M:
    """JSON as a model; raises the 422 that says what is wrong with it."""
    return model_of(json_of(raw), model)


def json_of(raw: bytes) -> Json:
    """The value that a body is; raises the 422 that says why it is none that a body may be."""
    if not raw:
        raise Problem(422, error_bodies.missing_body())
    try:
        data = from_json(decode_text(raw) if raw.startswith(MARKS) else raw, allow_inf_nan=False)
    except ValueError as malformed:
        raise Problem(422, why_malformed(raw, str(malformed))) from None
    problem = unreadable(data)
    if problem:
        raise Problem(422, error_bodies.unreadable_value(*problem))
    return without_nul(data) if NUL_ESCAPED in raw or raw.startswith(MARKS) else data


def model_of[M: BaseModel](data: Json, model: type[M]) -> M:
    """A value as a model; raises the 422 that says which field is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "body")) from None


def why_malformed(raw: bytes, why: str) -> JsonObject:
    """Where a body stops being JSON; `why` says it of one that is not looked at again."""
    place = place_of_half_a_pair(raw)
    if place is not None:
        return error_bodies.unreadable_value(place, HALF_OF_A_PAIR)
    found = decoding_error(raw)
    if found is None and len(raw) <= EXPLAINED_BYTES_MAX:
        why = "Not UTF-8, NaN or Infinity, a number of thousands of digits, or nested too deeply"
    return error_bodies.malformed_json(found or json.JSONDecodeError(why, "", 0))


def decoding_error(raw: bytes) -> json.JSONDecodeError | None:
    """Where a body stops being JSON, in the words that V1 has for it. None for a long one: it would
    be read slowly up to that place."""
    if len(raw) > EXPLAINED_BYTES_MAX:
        return None
    try:
        json.loads(raw)
    except json.JSONDecodeError as malformed:
        return malformed
    except (ValueError, RecursionError):
        pass
    return None


def place_of_half_a_pair(raw: bytes) -> Path | None:
    """Where a body has half of a surrogate pair, in a text or a name; None if it has none, is long,
    or is no JSON."""
    if len(raw) > EXPLAINED_BYTES_MAX:
        return None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    for path, value in walk(data):
        texts = [text for text in (value, *path[-1:]) if isinstance(text, str)]
        if any(map(SURROGATE.search, texts)):
            return path
    return None


def without_nul(data: Json) -> Json:
    """The same data without the character that Postgres cannot keep, as V1 drops it."""
    match data:
        case str():
            return data.replace("\x00", "")
        case list():
            return [without_nul(item) for item in data]
        case dict():
            return {key.replace("\x00", ""): without_nul(value) for key, value in data.items()}
    return data


def query_of[Q: Query](request: AnyRequest, model: type[Q]) -> Q:
    """The query parameters as a model; raises the 422 that says which one is wrong."""
    given = request.query_params
    values = {
        name: given.getall(name) if is_list(field.annotation) else given.getall(name)[-1]
        for name, field in named_fields(model)
        if name in given
    }
    for name, value in values.items():
        if "\x00" in "".join(value):
            raise Problem(422, {"detail": f"`{name}`: no text has a NUL character: leave it out"})
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "query")) from None


@cache
def named_fields(model: type[Query]) -> Sequence[tuple[str, FieldInfo]]:
    """The query parameters of a model, each under the name that clients send."""
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def is_list(annotation: object) -> bool:
    """Whether a parameter may be given several times."""
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    return get_origin(annotation) is list or any(map(is_list, get_args(annotation)))


def valid_id(prefix: str, value: str) -> str:
    """An id of the right kind; raises the 422 that says what it should look like."""
    problem = error_bodies.check_id(prefix, value)
    if problem:
        raise Problem(422, problem)
    return value


def valid_name(model: type[BaseModel], field: str, name: str) -> str:
    """A name that fits the field of this model; raises the 422 that says what is wrong with it."""
    try:
        model.model_validate({field: name})
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "path")) from None
    return name


def context_of(request: AnyRequest, message_id: str, fingerprint: str = "") -> Context:
    """In whose name a command is sent. A request id that could not stand in a header of the bus is
    not worth a refusal: some proxy made it up."""
    caller = caller_of(request)
    request_id = request.headers.get("x-request-id", "")
    return Context(
        message_id=message_id,
        org=caller.org,
        actor=caller.user,
        fingerprint=fingerprint,
        correlation_id=request_id if REQUEST_ID.fullmatch(request_id) else message_id,
    )


def whole_number(header: str) -> int | None:
    """The number in a header; None where there is none, or one of more digits than are counted."""
    return int(header) if WHOLE_NUMBER.fullmatch(header) else None
