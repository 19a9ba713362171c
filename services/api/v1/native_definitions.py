"""The agent that a body of the native API describes: as JSON or as TOML, in the form of an agent's
file, with all that is wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from libs.agent_toml.checked_file import CheckedFile, Path, check, read
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.problems import Problem
from libs.agent_toml.reporting import name_of
from libs.contracts.bus_messages import JsonObject
from libs.contracts.outside_texts import decode_text
from services.api.http import error_responses
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.v1.native_bodies import native_json, summary
from services.api.v1.native_problems import unprocessable

TOML_TYPES = ("application/toml", "text/toml", "text/plain")
TOML_CHARS_MAX = 512 << 10
JSON_TYPES = ("application/json", "")
FILE, BODY = "agent.toml", "body"
PROBLEMS_SHOWN_MAX = 100
# What of a file is made by requests of its own, one after the other.
OF_OTHER_REQUESTS = {
    "tool": "tools of its own source",
    "mcp_servers": "MCP servers",
    "folders": "folders",
    "permissions": "permissions",
    "secrets": "secrets, whose values are where `heeler apply` runs",
    "schedules": "schedules",
    "groups": "groups",
}
FIX = f"`heeler apply -f {FILE}` makes all of it"


async def definition_in(request: AnyRequest) -> tuple[AgentDefinition, list[JsonObject]]:
    """The agent that a body describes, and the warnings about it. Raises the 415 for another form
    than JSON and TOML, and the 422 that names all that is wrong."""
    checked = await checked_body(request)
    problems = [problem_document(problem) for problem in checked.problems[:PROBLEMS_SHOWN_MAX]]
    if checked.definition is None:
        errors = [problem for problem in problems if problem["severity"] == "error"]
        raise unprocessable(summary(errors, checked.file), *problems)
    left = [problem_document(problem) for problem in left_over(checked.definition, checked)]
    if left:
        raise unprocessable(summary(left, checked.file), *left, *problems)
    return checked.definition, problems


async def checked_body(request: AnyRequest) -> CheckedFile:
    """A body as the file of an agent. Raises Problem."""
    checks = api_of(request).text_works.checks
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in TOML_TYPES:
        text = text_of(body)
        if len(text) > TOML_CHARS_MAX:
            words = f"it has {len(text)} characters, and may have {TOML_CHARS_MAX}"
            raise unprocessable(f"The file is too large: {words}")
        return await checks.run(request, len(text), partial(read, text, file=FILE))
    if kind not in JSON_TYPES and not body.lstrip().startswith(b"{"):
        detail = f"A body of `{kind}` is not read: send application/json or application/toml"
        raise error_responses.Problem(415, {"detail": detail})
    document = native_json(body)
    if not isinstance(document, dict):
        raise unprocessable("`body`: an agent is an object with `name` and what else it has")
    return await checks.run(request, len(body), partial(check, document, file=BODY))


def text_of(body: bytes) -> str:
    """A body as text. Raises the 422 of what is no UTF-8."""
    try:
        return decode_text(body)
    except UnicodeDecodeError as broken:
        raise unprocessable(f"The body is not UTF-8: byte {broken.start} is wrong") from None


def left_over(definition: AgentDefinition, checked: CheckedFile) -> Iterator[Problem]:
    """The problems of the parts that one request cannot make, each in its place."""
    parts: dict[Path, str] = {
        (name,): words for name, words in OF_OTHER_REQUESTS.items() if getattr(definition, name)
    }
    for number, block in enumerate(definition.memory):
        if block.shared:
            parts["memory", number, "shared"] = "blocks that several agents share"
    for path, words in parts.items():
        place = checked.positions.of_key(path)
        has_place = checked.file == FILE
        yield Problem(
            file=checked.file,
            line=place.line if has_place else 0,
            column=place.column if has_place else 0,
            code="NAT001",
            message=f"this request makes an agent alone, and no {words}",
            expected=FIX,
            field=name_of(path),
        )


def problem_document(problem: Problem) -> JsonObject:
    """A problem as clients read it."""
    return problem.model_dump(mode="json")
