"""Fills docs/architecture.md with the real story of one message: `python -m deploy.story`.

Needs a running instance (`make up`). Talks to it as a client does and prints what the bus and the
database then say, between the `story` markers of the page.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

import nats
import psycopg

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
HOME = Path(os.environ.get("HEELER_HOME", ROOT / ".heeler"))
QUIET_SECONDS = 2.0
COLUMNS = 118

LOG = """
select position, to_char(occurred_at, 'HH24:MI:SS.MS') as at, topic, left(about, 12) as about,
       concat_ws(' ', payload->'message'->>'role', left(payload->'message'->>'content', 26),
                 payload->>'tool', payload->>'status', payload->>'finish_reason',
                 payload->>'stop_reason') as what
from agent.event_log where metadata->>'correlation_id' = any(%s) order by position"""
MEMORY = """
select topic, payload->'cause'->>'tool' as tool, left(payload->'cause'->>'run_id', 12) as run,
       payload->'changes'->>'value' as value
from memory.event_log where about = %s order by position"""


def call(url: str, path: str, body: dict[str, Any]) -> Any:
    """POST JSON and return the JSON of the answer."""
    request = urllib.request.Request(
        f"{url}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def tell() -> dict[str, str]:
    """Have one message answered, and write down what could be seen meanwhile."""
    urls = json.loads((HOME / "state.json").read_text())["urls"]
    block = {"label": "human", "value": ""}
    body = {"name": "Ada", "model": "demo/offline", "memory_blocks": [block]}
    agent = await asyncio.to_thread(call, urls["api"], "/v1/agents/", body)
    heard: list[str] = []
    client = await nats.connect(urls["nats"])

    async def hear(message: Any) -> None:
        heard.append(message.subject.replace("org-00000000-0000-4000-8000-000000000000", "<org>"))

    await asyncio.sleep(QUIET_SECONDS)
    await client.subscribe("*.event.>", cb=hear)
    await asyncio.to_thread(
        call, urls["api"], f"/v1/agents/{agent['id']}/messages", {"input": TEXT}
    )
    await asyncio.sleep(QUIET_SECONDS)
    await client.close()
    with psycopg.connect(urls["database"]) as connection:
        found = connection.execute(
            "select distinct metadata->>'correlation_id' from agent.event_log"
            " where topic = 'run.accepted' and payload->'run'->>'agent_id' = %s",
            [agent["id"]],
        ).fetchall()
        log = table(connection, LOG, [[row[0] for row in found]])
        memory = table(connection, MEMORY, [agent["blocks"][0]["id"]])
    return {"bus": "\n".join(heard), "log": log, "memory": memory}


TEXT = "My cat is called Whiskers"


def table(connection: psycopg.Connection[Any], query: str, values: list[Any]) -> str:
    """The rows of a query as psql shows them."""
    cursor = connection.execute(query, values)
    names = [column.name for column in cursor.description or []]
    rows = [
        [("" if cell is None else " ".join(str(cell).split())) for cell in row]
        for row in cursor.fetchall()
    ]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
             for row in [names, *rows]]  # fmt: skip
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def main() -> None:
    """Rewrite the page with what the server answers."""
    page = PAGE.read_text()
    for name, text in asyncio.run(tell()).items():
        block = "\n".join(line[:COLUMNS].rstrip() for line in text.split("\n"))
        marked = f"<!-- story: {name} -->\n```text\n{block}\n```"
        pattern = rf"<!-- story: {name} -->(\n```text\n.*?\n```)?"
        page = re.sub(pattern, marked.replace("\\", r"\\"), page, flags=re.S)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
