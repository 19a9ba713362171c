"""Tools that a model writes: shown to whoever asked, and not stored."""

from __future__ import annotations

from litestar import Response
from pydantic import ValidationError
from pydantic_core import to_json

from libs.contracts.agent.one_off_completions import AskModel
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.tool_requests import WrittenTool
from libs.contracts.letta.tools import ToolState, tool_state
from libs.contracts.tools.tools import DeriveToolSchema
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.openapi.operation import post
from services.api.resources.conversations.one_off_completions import PROVIDER_FAILED, completion

# The model that V1 asks where none is named.
DEFAULT_HANDLE = "openai/gpt-4.1"
REFUSED = 400
SYSTEM = """\
You write tools for language models. A tool is one Python function, whose source is read, not run, \
to tell models how it is called. It has a Google-style docstring that says what it does, with \
`Args:` that describes every argument, and types of the standard library on all arguments and on \
what it returns. It takes neither * nor **. Imports stand inside the function, and nothing behind \
it. Give sample arguments with which it can be tried once."""
ANSWER: JsonObject = {
    "type": "object",
    "properties": {
        "source_code": {"type": "string", "description": "The source of the function."},
        "sample_args": {
            "type": "object",
            "description": "Arguments for one call, by their names.",
        },
        "pip_requirements": {
            "type": "array",
            "description": "The packages of PyPI that it imports.",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "version": {"type": "string"}},
                "required": ["name"],
            },
        },
    },
    "required": ["source_code", "sample_args"],
}


@post("/v1/tools/generate-tool", "tool and arguments", body=bodies.GenerateToolInput)
async def generate_tool(request: AnyRequest) -> Response[bytes]:
    """Have a model write a tool, with arguments to try it. It is neither stored nor run."""
    asked = await body_of(request, bodies.GenerateToolInput)
    api = api_of(request)
    command = AskModel(
        completion_id=api.ids.new("completion"),
        model=asked.handle or DEFAULT_HANDLE,
        prompt=prompt_of(asked),
        system_prompt=SYSTEM,
        response_schema=ANSWER,
    )
    answer = await completion(request, command)
    written = written_tool(str(answer["content"]))
    schema = await schema_of(request, asked.tool_name, written.source_code)
    tool = ToolState(
        id=api.ids.new("tool"),
        name=asked.tool_name,
        description=str(schema["description"]),
        source_code=written.source_code,
        json_schema=schema,
        pip_requirements=[requirement.model_dump() for requirement in written.pip_requirements]
        or None,
    )
    body: JsonObject = {
        "tool": tool_state(tool),
        "sample_args": written.sample_args,
        "response": answer.get("said") or "",
    }
    return raw(to_json(body))


def prompt_of(asked: bodies.GenerateToolInput) -> str:
    """The prompt of the model that writes a tool."""
    parts = [f"Write the function `{asked.tool_name}`.", asked.prompt]
    if asked.starter_code:
        parts.append(f"Begin with this source:\n\n```python\n{asked.starter_code}\n```")
    if asked.validation_errors:
        wrong = "\n".join(f"- {error}" for error in asked.validation_errors)
        parts.append(f"This was wrong with it:\n\n{wrong}")
    return "\n\n".join(parts)


def written_tool(content: str) -> WrittenTool:
    """The tool that the model wrote; raises the 502 of an answer that is none."""
    try:
        return WrittenTool.model_validate_json(content)
    except ValidationError as invalid:
        first = invalid.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise no_tool(f"`{place}`: {first['msg']}") from None


async def schema_of(request: AnyRequest, name: str, source: str) -> JsonObject:
    """The schema that follows from source; raises the 502 of source that is no tool of this
    name."""
    api = api_of(request)
    command = DeriveToolSchema(asker=api.ids.new("schema"), source_code=source)
    try:
        schema = (await api.send(request, command, keyed=False)).result
    except Problem as problem:
        if problem.status != REFUSED:
            raise
        raise no_tool(str(problem.body.get("detail"))) from None
    if schema["name"] != name:
        raise no_tool(f"its last function is `{schema['name']}`, and not `{name}`")
    return schema


def no_tool(why: str) -> Problem:
    """The answer to who gets no tool, because the model has written none."""
    detail = f"The model has written no tool that can be used: {why}"
    return Problem(PROVIDER_FAILED, {"detail": detail}, {"x-should-retry": "false"})
