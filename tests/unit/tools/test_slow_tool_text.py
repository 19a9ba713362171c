"""R41 in the tools service: whatever a client's source, or a server's schema and result say at
their greatest length, it takes no more than half a second where the event loop is."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.tool_requests import SOURCE_CHARS_MAX
from libs.contracts.letta.tools import ToolState
from services.tools.adapters.mcp import failures, stdio_transport
from services.tools.adapters.mcp.message_repair import without_halves
from services.tools.adapters.mcp.result_checks import ResultChecks
from services.tools.adapters.tool_sources import ToolSources
from services.tools.domain.mcp_tool import OfferedTool, check_tools
from tests.processor_bounds import processor_time

HEAD = 'def f(a: str):\n    """Say.\n\n    Args:\n        a: what\n    '
CHAIN: dict[str, Any] = {
    "type": "object",
    "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} if n < 199 else {} for n in range(200)},
}


@pytest.mark.parametrize("filling", ["\n", "    a: b\n", ":param a: b\n", "----\n", "a\n\n"])
async def test_a_docstring_of_the_greatest_length_is_read_apart(filling: str) -> None:
    source = HEAD + filling * ((SOURCE_CHARS_MAX - 200) // len(filling)) + '"""\n'
    sources = ToolSources()
    with processor_time():
        tool = await sources.complete(ToolState(id="tool-1", source_code=source), "org-1")
    assert isinstance(tool, Rejected) or tool.name == "f"
    sources.processes.close()


@pytest.mark.parametrize("source", ["x=f'" + "{a}" * 60_000 + "'\n", "a=1\n" * 47_000])
async def test_a_source_of_the_greatest_length_is_parsed_apart(source: str) -> None:
    sources = ToolSources()
    with processor_time():
        tool = ToolState(id="tool-1", source_code=f'{source}{HEAD}"""\n')
        assert not isinstance(await sources.complete(tool, "org-1"), Rejected)
    sources.processes.close()


@pytest.mark.parametrize(
    "schema", [CHAIN, {"type": "object", "properties": {"a": {"enum": ["x"] * 9_000}}}]
)
def test_one_tool_of_a_server_is_checked_soon(schema: dict[str, Any]) -> None:
    with processor_time():
        check_tools([OfferedTool("tool", "says", schema)])


async def test_a_result_that_a_schema_would_compare_for_ever_is_compared_apart() -> None:
    checks = ResultChecks()
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    with processor_time():
        assert "beside" not in await checks.problem("org-1", schema, {"a": "a" * 18 + "b"})
        assert await checks.problem("org-1", {"type": "object"}, {"a": 1}) == ""
        assert "not of type" in await checks.problem("org-1", {"type": "object"}, [])
    checks.close()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {str(number): {} for number in range(1_000)}},
        {"anyOf": [True] * 1_000},
        {"items": {"allOf": [{"type": "null"}] * 38}},
    ],
)
async def test_a_schema_of_many_parts_is_looked_at_apart(schema: dict[str, Any]) -> None:
    checks = ResultChecks()
    with processor_time():
        await checks.problem("org-1", schema, {})
        await checks.problem("org-1", schema, [1] * 70)
    checks.close()


def test_a_line_that_is_nested_without_end_is_no_answer() -> None:
    with processor_time():
        assert not failures.may_be_the_answer(failures.NoMessage(b"[" * 1_000_000))
        assert failures.may_be_the_answer(failures.NoMessage(b'{"a":' * 1_000_000))


@pytest.mark.parametrize("filling", [b'"id" ', b'"id":', b" ", b"\\ud800", b"\\", b'"'])
def test_a_line_of_a_server_is_read_once(filling: bytes) -> None:
    line = b'{"jsonrpc"' + filling * (2_000_000 // len(filling))
    with processor_time(1.0):
        stdio_transport.answered_request(line)
        without_halves(line)
