"""Whether the results of tools are as their servers describe them.

A server writes the schema and the result. A pattern in a schema, or parts that name each other, may
take a validator for ever, so what is not small is compared in a process of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic_core import to_json

from libs.bus.fair_semaphore import NoPlace
from libs.contracts.bus_messages import Json, JsonObject
from libs.work.limited_processes import LimitedProcesses, LimitReached

if TYPE_CHECKING:
    import mcp_types
    from mcp.client.session import ClientSession

# The bytes of a schema times those of a result that are compared on the event loop: about 10 ms.
INLINE_BYTES_MAX = 250_000
INLINE_PARTS_MAX = 40  # of a schema: a validator takes a millisecond to see that one is a schema
PARTS = ("{", "true", "false")  # each schema within one is one of these
# What makes a validator do more than read both once.
COSTLY = ("pattern", "$ref", "$dynamicRef", "$recursiveRef", "uniqueItems", "format")


class ResultChecks:
    """Compares the results that one process gets with the schemas of their tools."""

    def __init__(self) -> None:
        self.processes = LimitedProcesses(__name__, "jsonschema")

    async def check(
        self, org: str, session: ClientSession, name: str, result: mcp_types.CallToolResult
    ) -> None:
        """Raise RuntimeError where a result is not as its tool's server describes it; the SDK does
        the same on the event loop."""
        if name not in session._tool_output_schemas:
            await session.list_tools()
        schema = session._tool_output_schemas.get(name)
        if schema is None:
            return
        content = result.structured_content
        if content is None and "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema but gave no structured content")
        if problem := await self.problem(org, schema, content):
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {problem}")

    async def problem(self, org: str, schema: JsonObject, content: Json) -> str:
        """Why a result does not fit a schema; empty if it does. Raises RuntimeError where that
        cannot be found out now."""
        written, said = to_json(schema).decode(), to_json(content).decode()
        is_costly = any(f'"{keyword}' in written for keyword in COSTLY)
        is_costly = is_costly or sum(map(written.count, PARTS)) > INLINE_PARTS_MAX
        if not is_costly and len(written) * len(said) <= INLINE_BYTES_MAX:
            return problem_of_content(written, said)
        try:
            return await self.processes.run(problem_of_content, written, said, org=org)
        except LimitReached as reached:
            return f"it cannot be compared with its schema: {reached}"
        except NoPlace as full:
            raise RuntimeError(f"The result could not be checked: {full.reason}") from None

    def close(self) -> None:
        """End the processes; safe to repeat."""
        self.processes.close()


def problem_of_content(written_schema: str, written_content: str) -> str:
    """Why JSON does not fit a schema; empty if it does."""
    from jsonschema import SchemaError
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = json.loads(written_schema)
    validator = validator_for(schema)
    try:
        validator.check_schema(schema)
        registry: Registry[JsonObject] = Registry()  # an empty one: no schema is fetched
        errors = validator(schema, registry=registry).iter_errors(json.loads(written_content))
        error = best_match(errors)
    except (SchemaError, Unresolvable, RecursionError) as unfit:
        return f"its schema is none: {unfit}"
    return str(error.message) if error is not None else ""
