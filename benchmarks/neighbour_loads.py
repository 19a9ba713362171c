"""What the neighbours of a client do: hostile requests, and heavy work that is allowed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

MODEL = "openai/gpt-4o-mini"
IMPORTS, COPIES, VALIDATIONS = 4, 20, 40
LINE_BYTES = 4 << 20
MEMBERS = 12_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a load."""

    method: str
    path: str
    body: Any = None
    file: bytes | None = None
    fields: dict[str, str] = field(default_factory=dict)

    async def send(self, http: httpx.AsyncClient) -> httpx.Response:
        """The answer to it."""
        if self.file is None:
            return await http.request(self.method, self.path, json=self.body)
        files = {"file": ("agent.gz", self.file, "application/gzip")}
        return await http.post(self.path, files=files, data=self.fields)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that are sent at the same time."""

    name: str
    asked: Sequence[Asked]
    hostile: bool = False


def upload(file: bytes, **fields: str) -> Asked:
    """An import of a file."""
    return Asked("POST", "/v1/agents/import", file=file, fields=fields)


def endless_quotes() -> bytes:
    """A line with a text that never ends, and many quotes in it."""
    return gzip.compress(b'{"kind":"header" "' + b'\\"' * 50_000)


def many_members() -> bytes:
    """A long line without its end, then thousands of parts of one byte."""
    begin = b'{"kind":"header","written_by":"' + b"x" * (LINE_BYTES - 100)
    return gzip.compress(begin) + gzip.compress(b"x") * MEMBERS


def open_braces() -> Asked:
    """Headers that are full of the beginnings of variables."""
    headers = {f"X-{number}": "{{a|" * 4_096 for number in range(31)}
    config = {
        "mcp_server_type": "streamable_http",
        "server_url": "https://mcp.example.com/mcp",
        "custom_headers": headers,
    }
    return Asked("POST", "/v1/mcp-servers/", {"server_name": "braces", "config": config})


HEAD = """\
name = "bench"
description = "Is checked, and never made."
system_prompt = "Be brief."
model = "demo/offline"
"""


def nested_tools() -> Asked:
    """A file of an agent with a hundred tools that are one nested source."""
    source = "def f():\n    " + "exec(" * 90 + "'1'" + ")" * 90 + "\n"
    toml = HEAD + '[[tool]]\nfile = "tools/f.py"\n' * 100
    return Asked("POST", "/v1/agents/validate", {"toml": toml, "files": {"tools/f.py": source}})


def large_file() -> Asked:
    """A long file of an agent with many blocks, which is right."""
    text = "words and more words " * 40
    blocks = (f'[[memory]]\nlabel = "block_{n}"\nvalue = "{text}"\n' for n in range(200))
    return Asked("POST", "/v1/agents/validate", {"toml": HEAD + "".join(blocks)})


async def created(http: httpx.AsyncClient, **fields: Any) -> str:
    """A new agent."""
    body = {"model": MODEL, "embedding": "openai/text-embedding-3-small", **fields}
    answer = await http.post("/v1/agents/", json=body)
    answer.raise_for_status()
    return str(answer.json()["id"])


def said(agent_id: str, text: str) -> Asked:
    """A message to an agent."""
    message = {"role": "user", "content": text}
    return Asked("POST", f"/v1/agents/{agent_id}/messages", {"messages": [message]})


async def hostile_loads(http: httpx.AsyncClient) -> list[Load]:
    """Six requests, each of which once held a process until it was killed."""
    blocks = "<a>\n<description><value>\n" * 2_000
    demo = await created(http, model="demo/offline", system=blocks)
    script = [{"match": f"never {number}", "text": "x"} for number in range(900)]
    replies = [*script, *[{"text": "hello"}] * 100]
    scripted = await created(http, model="scripted/replies", metadata={"scripted_replies": replies})
    asked = {
        "endless quotes": upload(endless_quotes()),
        "many members": upload(many_members()),
        "open braces": open_braces(),
        "open blocks": said(demo, "hello"),
        "many matches": said(scripted, "n" * 5_000_000),
        "nested tools": nested_tools(),
    }
    return [Load(name, [request], hostile=True) for name, request in asked.items()]


async def heavy_loads(http: httpx.AsyncClient, agent_id: str) -> list[Load]:
    """Work on a long history, and files, that clients may ask for."""
    export = f"/v1/agents/{agent_id}/export"
    full = await http.get(f"{export}?format=heeler")
    full.raise_for_status()
    return [
        Load("one export", [Asked("GET", f"{export}?format=heeler")]),
        Load("one fork", [Asked("POST", f"/v1/agents/{agent_id}/fork", {})]),
        Load(f"{COPIES} exports", [Asked("GET", f"{export}?format=heeler")] * COPIES),
        Load(f"{COPIES} agent files", [Asked("GET", export)] * COPIES),
        Load(f"{COPIES} forks", [Asked("POST", f"/v1/agents/{agent_id}/fork", {})] * COPIES),
        Load(f"{IMPORTS} imports", [upload(full.content, conflicts="copy")] * IMPORTS),
        Load(f"{VALIDATIONS} large files", [large_file()] * VALIDATIONS),
        Load(f"{VALIDATIONS} nested tools", [nested_tools()] * VALIDATIONS, hostile=True),
    ]


async def long_agent(http: httpx.AsyncClient, messages: int) -> str:
    """An agent that was said half as many messages, one after the other, and answered each."""
    agent_id = await created(http, name="long")
    for number in range(messages // 2):
        text = f"message {number}: " + "words and more words " * 10
        (await said(agent_id, text).send(http)).raise_for_status()
    return agent_id


def words(answer: httpx.Response) -> str:
    """An answer in short: its status, and for a refusal what it says."""
    if answer.status_code < 300:
        return str(answer.status_code)
    try:
        detail = json.dumps(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = answer.text
    return f"{answer.status_code} {detail[:70]}"
