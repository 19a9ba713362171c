"""Options of an import, in a form or in the query, and the answer to it."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from libs.contracts.api.imports import ConflictPolicy, ImportForm, ImportOptions
from libs.contracts.letta import error_bodies
from libs.contracts.letta.agent_requests import AgentName
from libs.contracts.letta.request_size_limits import Name, Text
from libs.encryption.passphrase_sealer import PASSPHRASE_CHARS_MAX, PASSPHRASE_CHARS_MIN
from services.api.adapters.resource_query_builder import Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import Api, api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query
from services.api.v1.secret_sealing import sealed_values

PASSPHRASE_HEADER = "x-heeler-passphrase"
# How long an answer is waited for; the import goes on after that.
WAIT_SECONDS_MAX = 900.0
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.05, 1.0

IMPORTS = Resource(
    kind="import",
    view="api.import_view",
    document="""json_build_object(
        'id', v.id, 'status', v.status, 'source', v.source, 'created_at', v.created_at,
        'updated_at', v.updated_at, 'completed_at', v.completed_at, 'lines', v.lines,
        'lines_done', v.lines_done, 'events', v.events, 'events_done', v.events_done,
        'agent_ids', v.agent_ids, 'errors', v.errors, 'left_out', v.left_out,
        'is_conflict', v.is_conflict, 'reason', v.reason)""",
    created_view="api.created_import_view",
)


class ImportQuery(Query):
    """The options of an import: V1's fields, and ours. A form may have them, too."""

    append_copy_suffix: bool | None = None
    override_existing_tools: bool = True
    project_id: Name | None = None
    strip_messages: bool = False
    env_vars_json: Text | None = None
    secrets: Text | None = None
    name: AgentName | None = None
    override_name: AgentName | None = None
    model: Name | None = None
    override_model_handle: Name | None = None
    embedding: Name | None = None
    override_embedding_handle: Name | None = None
    conflicts: ConflictPolicy | None = None
    accept_tools: bool = False
    background: bool = False
    passphrase: Annotated[str | None, Field(max_length=PASSPHRASE_CHARS_MAX)] = None


def with_fields(query: ImportQuery, fields: dict[str, str]) -> ImportQuery:
    """The options by the query or else by fields of the form. Raises the 422."""
    named = {name: value for name, value in fields.items() if name in ImportQuery.model_fields}
    given = {name: value for name, value in named.items() if value != ""}
    try:
        return ImportQuery.model_validate({**given, **query.model_dump(exclude_unset=True)})
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "body")) from None


def options_of(request: AnyRequest, asked: ImportQuery, form: ImportForm) -> ImportOptions:
    """The options of the import's command, with secrets sealed: a file of the retired server makes
    a copy by name, as it did there, unless the request says otherwise. Raises the 422."""
    api = api_of(request)
    if form == "letta" and asked.conflicts not in (None, "copy"):
        detail = (
            f"`conflicts`: '{asked.conflicts}' has no effect on an agent file, whose agents always "
            "get new ids: leave it out, or import a file of `format=heeler`"
        )
        raise Problem(422, {"detail": detail})
    suffix = asked.append_copy_suffix
    embedding = request.headers.get("x-override-embedding-model")
    passphrase = passphrase_of(request, asked.passphrase)
    return ImportOptions(
        conflicts=asked.conflicts,
        name=asked.name or asked.override_name,
        append_copy_suffix=form == "letta" if suffix is None else suffix,
        override_existing_tools=asked.override_existing_tools,
        accept_tools=asked.accept_tools,
        project_id=asked.project_id or request.headers.get("x-project"),
        strip_messages=asked.strip_messages,
        model=asked.model or asked.override_model_handle,
        embedding=asked.embedding or asked.override_embedding_handle or embedding,
        secrets=secrets_of(api, asked),
        passphrase=None if passphrase is None else api.sealer.seal(passphrase),
    )


def passphrase_of(request: AnyRequest, asked: str | None = None) -> str | None:
    """The passphrase that a client sends. Raises the 422 for one that protects nothing."""
    passphrase = request.headers.get(PASSPHRASE_HEADER) or asked
    if not passphrase:
        return None
    if not PASSPHRASE_CHARS_MIN <= len(passphrase) <= PASSPHRASE_CHARS_MAX:
        detail = (
            f"The passphrase has to have {PASSPHRASE_CHARS_MIN} to {PASSPHRASE_CHARS_MAX}"
            " characters: send a longer one"
        )
        raise Problem(422, {"detail": detail})
    return passphrase


def secrets_of(api: Api, asked: ImportQuery) -> dict[str, str] | None:
    """The sealed environment variables for the agents. Raises the 422."""
    field = "secrets" if asked.secrets else "env_vars_json"
    text = asked.secrets or asked.env_vars_json
    if not text:
        return None
    try:
        values = from_json(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        detail = f"`{field}` has to be JSON text of an object whose values are texts"
        raise Problem(422, {"detail": detail})
    return sealed_values(api.sealer, field, values)


def wants_no_answer(request: AnyRequest, asked: ImportQuery) -> bool:
    """Whether a client looks itself how far its import is."""
    return asked.background or "respond-async" in request.headers.get("prefer", "")


async def import_document(request: AnyRequest, import_id: str) -> bytes:
    """An import as clients read it, which was requested. Raises the 410 of one that is
    forgotten."""
    body = await api_of(request).reads.one(IMPORTS, org_of(request), import_id)
    if body is None:
        raise refusal_of_forgotten(import_id)
    return body


def refusal_of_forgotten(import_id: str) -> Problem:
    """The answer to who asks again for an import of whose agents none is left."""
    detail = f"Import {import_id} was made, and forgotten with its agents: use another key"
    return Problem(410, {"detail": detail})


async def answer_later(request: AnyRequest, import_id: str) -> Response[bytes]:
    """The answer to a client that does not wait."""
    response = raw(await import_document(request, import_id), 202)
    response.headers["location"] = f"/v1/imports/{import_id}"
    return response


async def imported_agents(request: AnyRequest, import_id: str) -> list[str] | None:
    """The ids of the agents, when an import has ended; None if it takes longer than a client waits.
    Raises the answer that its failure is."""
    clock = api_of(request).clock
    until, pause = clock.monotonic() + WAIT_SECONDS_MAX, LOOK_SECONDS_MIN
    while clock.monotonic() < until:
        found = from_json(await import_document(request, import_id))
        if found["status"] == "completed":
            agent_ids: list[str] = found["agent_ids"]
            return agent_ids
        if found["completed_at"] is not None or found["status"] == "undoing":
            raise failure(found)
        await clock.sleep(pause)
        pause = min(pause * 1.5, LOOK_SECONDS_MAX)
    return None


def failure(found: dict[str, object]) -> Problem:
    """The answer that says what was wrong with a file."""
    errors = found["errors"]
    assert isinstance(errors, list)
    words = "; ".join(f"{error['entry']}: {error['message']}" for error in errors[:5])
    body = {
        "detail": f"Nothing was imported: {words or 'the import was cancelled'}",
        "errors": errors,
        "import_id": found["id"],
    }
    return Problem(409 if found["is_conflict"] or not errors else 422, from_json(to_json(body)))
