"""Files of agents, checked without making anything; and the JSON Schema of such files."""

from __future__ import annotations

import json
from typing import Annotated

from litestar import Response, get
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from libs.agent_toml import to_json as problem_document
from libs.agent_toml.checked_texts import problems_in
from libs.agent_toml.json_schema import PATH as SCHEMA_PATH
from libs.agent_toml.json_schema import json_schema
from libs.agent_toml.tables import Environment
from libs.contracts.letta.request_size_limits import JsonLimit, Name
from libs.contracts.outside_texts import decode_text
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, parse, query_of
from services.api.openapi.operation import post
from services.api.v1.native_definitions import TOML_CHARS_MAX, TOML_TYPES

FILES_MAX = 200
FILES_BYTES_MAX = 1 << 20  # of all that stand beside it, as JSON


class FileToCheck(BaseModel):
    """The file of an agent, and the texts of the files beside it by their paths."""

    model_config = ConfigDict(extra="forbid")

    toml: Annotated[str, Field(max_length=TOML_CHARS_MAX)]
    files: Annotated[dict[Name, str], Field(max_length=FILES_MAX), JsonLimit(FILES_BYTES_MAX)] = {}
    file: Name = "agent.toml"


class CheckWanted(Query):
    """The options of a check: by which security rules, and whether warnings make a file invalid."""

    environment: Environment | None = None
    strict: bool = False


@post("/v1/agents/validate", "what is wrong with a file", query=CheckWanted, body=FileToCheck)
async def validate_agent_file(request: AnyRequest) -> Response[bytes]:
    """Say what is wrong with the TOML file of an agent; nothing is made. The body is JSON, or the
    text of the file itself as `application/toml`."""
    wanted = query_of(request, CheckWanted)
    asked = await file_in(request)
    chars = len(asked.toml) + sum(map(len, asked.files.values()))
    found = await api_of(request).text_works.checks.run(
        request, chars, problems_in, asked.toml, asked.file, asked.files, wanted.environment
    )
    problems = [problem_document(problem) for problem in found]
    errors = [each for each in problems if wanted.strict or each["severity"] == "error"]
    warnings = [] if wanted.strict else [each for each in problems if each["severity"] == "warning"]
    return raw(to_json({"valid": not errors, "errors": errors, "warnings": warnings}))


async def file_in(request: AnyRequest) -> FileToCheck:
    """The file that a body has. Raises the 422 of one that is too large, or none."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in TOML_TYPES:
        body = to_json({"toml": text_of(body)})
    return parse(body, FileToCheck)


def text_of(body: bytes) -> str:
    """A body as text. Raises the 422 of one that is no UTF-8."""
    try:
        return decode_text(body)
    except UnicodeDecodeError as error:
        detail = f"The body is no UTF-8: byte {error.start} is wrong"
        raise Problem(422, {"detail": detail}) from None


@get(SCHEMA_PATH, opt={"hidden": True})
async def agent_schema() -> Response[bytes]:
    """Retrieve the JSON Schema of the TOML file of an agent."""
    return Response(json.dumps(json_schema()).encode(), media_type="application/schema+json")
