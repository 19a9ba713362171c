"""Requests that once held a process for minutes: called by tests in processes with limits."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from libs.agent_toml import read
from libs.contracts.api.import_errors import BadSource
from libs.contracts.letta.mcp_servers import CreateMCPServerRequest
from libs.contracts.letta.url_redaction import without_credentials
from services.api.adapters.agents.uploaded_lines import UploadedParts
from services.api.adapters.memory.uploaded_file_store import PART_BYTES
from services.api.domain.line_checks import LineChecks
from services.api.http.request_parsing import json_of

NESTED = "exec(" * 90 + "1" + ")" * 90


class StoredParts:
    """A database that has the parts of one upload."""

    def __init__(self, data: bytes) -> None:
        self.parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]

    async def fetch_one(self, _: str, values: dict[str, Any]) -> tuple[bytes] | None:
        """The part with a number."""
        number = values["number"]
        return (self.parts[number],) if number < len(self.parts) else None


async def take_lines(data: bytes) -> None:
    """Read an upload as an import does."""
    checks = LineChecks()
    database: Any = StoredParts(data)
    async for raw in UploadedParts(database).lines("org-1", "import-1"):
        checks.take(raw)


def import_a_text_that_does_not_end() -> None:
    """A text of 50,000 escaped quotation marks behind a header, which nothing ends."""
    with suppress(BadSource):
        LineChecks().take(b'{"kind":"header" "' + b'\\"' * 50_000 + b"\n")


def import_many_small_members() -> None:
    """A line of almost 4 MiB without its end, then 12,000 gzip members of one byte each."""
    line = b'{"kind":"header","written_by":"' + b"a" * ((4 << 20) - 20_000)
    with suppress(BadSource):
        asyncio.run(take_lines(gzip.compress(line) + gzip.compress(b"a") * 12_000))


def read_headers_with_variables_that_do_not_end() -> None:
    """An MCP server with 31 headers, each full of beginnings of variables."""
    headers = {f"x-{number}": "{{a|" * 4_096 for number in range(31)}
    config = {
        "mcp_server_type": "streamable_http",
        "server_url": "http://127.0.0.1:9/mcp",
        "custom_headers": headers,
    }
    CreateMCPServerRequest.model_validate({"server_name": "s", "config": config})


def check_many_tools_of_one_nested_source() -> None:
    """100 tools of one source with calls that are deep in each other."""
    source = "def f():\n" + f"    {NESTED}\n" * 11
    toml = 'name = "a"\nsystem_prompt = "b"\n' + '[[tool]]\nfile = "t.py"\n' * 100
    assert read(toml, read_sibling=lambda _: source).errors


def check_many_unknown_tools_beside_long_names() -> None:
    """Rules about tools that are not there, beside 5,000 long names that are much like them."""
    names = ",".join(f'"{"a" * 95}{number:05}"' for number in range(1_000))
    parts = [f'name = "a"\nsystem_prompt = "b"\ntools = [{names}]\n']
    for server in range(4):
        offered = ",".join(f'"{"a" * 93}{server}{number:05}"' for number in range(900))
        parts.append(
            f'[[mcp_servers]]\nname = "s{server}"\nurl = "http://x"\ntools = [{offered}]\n'
        )
    rule = '[[tool_rules]]\ntype = "exit_loop"\ntool_name = "{}"\n'
    parts += [rule.format(f"{'a' * 90}{number}zzzz") for number in range(60)]
    assert read("".join(parts)).errors


def check_one_large_file_that_is_named_often() -> None:
    """500 blocks and 100 tools that name one file of 1 MiB."""
    block = '[[memory]]\nlabel = "b{}"\nlimit = 2000000\nvalue_file = "long.txt"\n'
    toml = 'name = "a"\nsystem_prompt = "b"\n' + "".join(map(block.format, range(500)))
    found = read(toml, read_sibling=lambda _: "ignore " * (1 << 17))
    assert any("together" in problem.message for problem in found.errors)


def parse_a_body_that_stops_being_json() -> None:
    """A body of 6 MB, whose last bracket is missing."""
    with suppress(Exception):
        json_of(b"[" + b"1," * 3_000_000)


def parse_a_body_of_many_values() -> None:
    """A body with as many values as one may have."""
    json_of(b"[" + b"1," * 99_990 + b"1]")


def refuse_a_header_of_many_braces() -> None:
    """A value of a header that is half a variable, and long."""
    with suppress(ValidationError):
        CreateMCPServerRequest.model_validate(
            {"server_name": "s", "config": {"server_url": "http://a", "auth_token": "{{" * 8_000}}
        )


def redact_an_address_of_many_parameters() -> None:
    """An address of 4,096 characters whose parameters are named like keys and have no values."""
    assert without_credentials("http://a/" + "?key" * 1_021) is not None


CASES = (
    redact_an_address_of_many_parameters,
    import_a_text_that_does_not_end,
    import_many_small_members,
    read_headers_with_variables_that_do_not_end,
    check_many_tools_of_one_nested_source,
    check_many_unknown_tools_beside_long_names,
    parse_a_body_that_stops_being_json,
    parse_a_body_of_many_values,
    refuse_a_header_of_many_braces,
)
# What has a process of its own at such a size: it may take as long as 4 MiB of text do.
LARGE_CASES = (check_one_large_file_that_is_named_often,)
