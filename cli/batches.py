"""`heeler batches`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import text_of
from cli.names import AGENT, id_of
from cli.output import columns, progress, say, show, show_rows
from cli.server import server
from cli.verbs import LIST_ENTRIES, Limit
from libs.contracts.outside_texts import lines_of

app = noun("Batches: many messages by one request.")

BATCHES = "/v1/messages/batches"
ITEMS_MAX = 100  # of one batch; a longer file becomes several
POLL_SECONDS = 0.5
ENDED = ("completed", "failed", "cancelled")

Batch = Annotated[str, Argument(help="Its id.")]
AgentOption = Annotated[str | None, Option(help="Of this agent: its name or id.")]

COLUMNS = columns("id", "status") | columns(
    items=lambda batch: batch["counts"]["total"],
    done=lambda batch: f"{batch['percentage']} %",
    failed=lambda batch: batch["counts"]["failed"],
    created="created_at",
)
FIELDS = COLUMNS | columns(
    agent="agent_id",
    completed="completed_at",
    failed_items=lambda batch: "\n".join(
        f"{item['number']}: {item['reason']}" for item in batch["failed_items"]
    ),
)


@app.command("list")
def list_(agent: AgentOption = None, limit: Limit = LIST_ENTRIES) -> None:
    """List the batches of an agent, or without one those of all that have not ended."""
    path = BATCHES
    if agent is not None:
        path = f"/v1/agents/{id_of(server(), AGENT, agent)}/messages/batch"
    show_rows(server().pages(path, limit=limit), COLUMNS)


@app.command()
def get(batch: Batch) -> None:
    """Show how far a batch is, and what failed in it."""
    show(server().get(f"{BATCHES}/{batch}"), FIELDS)


@app.command()
def create(
    file: Annotated[Path, Argument(help="A JSONL file, an item on each line; - is stdin.")],
    agent: AgentOption = None,
    sequential: Annotated[
        bool, Option("--sequential", help="With --agent: one after the other, in its history.")
    ] = False,
    wait: Annotated[bool, Option("--wait", help="Return when all are answered.")] = False,
) -> None:
    """Have the messages of a file answered.

    A line is a text, as "Summarise chapter 1", or an object, as {"input": "...", "max_steps": 5}.
    Without --agent each is an object that also has `agent`, a name or an id. A file of more than
    100 lines becomes several batches.
    """
    if sequential and agent is None:
        raise CommandError("--sequential goes with --agent", ExitCode.USAGE)
    items = _items(file)
    if agent is None:
        requests = [_to_its_agent(number, item) for number, item in items]
        path = BATCHES
        bodies: list[dict[str, Any]] = [{"requests": part} for part in _parts(requests)]
    else:
        path = f"/v1/agents/{id_of(server(), AGENT, agent)}/messages/batch"
        texts = [item for _, item in items]
        bodies = [{"items": part, "sequential": sequential} for part in _parts(texts)]
    batches = [server().post(path, body) for body in bodies]
    if wait:
        batches = _wait([batch["id"] for batch in batches])
    show_rows([server().get(f"{BATCHES}/{batch['id']}") for batch in batches], COLUMNS)
    if failed := sum(batch["counts"]["failed"] for batch in batches if wait):
        raise CommandError(f"{failed} items failed: heeler batches get says why")


def _items(file: Path) -> list[tuple[int, Any]]:
    items: list[tuple[int, Any]] = []
    for number, line in enumerate(lines_of(text_of(file)), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            json.dumps(item, allow_nan=False)  # NaN is read, but no request can have it
        except (ValueError, RecursionError) as problem:
            raise CommandError(
                f"{file}:{number}: no JSON: {problem}", ExitCode.REFUSED
            ) from problem
        if not isinstance(item, str | dict):
            raise CommandError(f"{file}:{number}: an item is a text or an object", ExitCode.REFUSED)
        items.append((number, item))
    if not items:
        raise CommandError(f"{file} has no items", ExitCode.REFUSED)
    return items


def _to_its_agent(number: int, item: Any) -> Any:
    agent = item.get("agent") if isinstance(item, dict) else None
    if not isinstance(agent, str):
        raise CommandError(
            f"Line {number} names no `agent`: name one in each line, or --agent for all",
            ExitCode.REFUSED,
        )
    request = {field: value for field, value in item.items() if field != "agent"}
    if text := request.pop("input", None):
        request["messages"] = [{"role": "user", "content": text}]
    return {"agent_id": _agent_id(agent), **request}


_known: dict[str, str] = {}


def _agent_id(name: str) -> str:
    """Asked once for each name: a file may name the same agent on every line."""
    if name not in _known:
        _known[name] = id_of(server(), AGENT, name)
    return _known[name]


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), ITEMS_MAX):
        yield items[start : start + ITEMS_MAX]


@app.command()
def wait(batch: Batch) -> None:
    """Wait until a batch has ended; shows how far it is."""
    show_rows(_wait([batch]), COLUMNS)


def _wait(batch_ids: list[str]) -> list[Any]:
    batches = [server().get(f"{BATCHES}/{batch_id}") for batch_id in batch_ids]
    total = sum(batch["counts"]["total"] for batch in batches)
    with progress("Answering", total) as update:
        while True:
            update(sum(_ended_items(batch) for batch in batches))
            if all(batch["completed_at"] for batch in batches):
                return batches
            time.sleep(POLL_SECONDS)
            batches = [
                batch if batch["completed_at"] else server().get(f"{BATCHES}/{batch['id']}")
                for batch in batches
            ]


def _ended_items(batch: Any) -> int:
    return sum(int(batch["counts"][status]) for status in ENDED)


@app.command()
def results(batch: Batch) -> None:
    """Show the answer to each item, in the order of the file."""
    found = server().get(f"{BATCHES}/{batch}")
    if found["agent_id"] is None:
        _show_messages(batch)
        return
    path = f"/v1/agents/{found['agent_id']}/messages/batch/{batch}/items"
    show_rows(
        server().get(path, limit=ITEMS_MAX),
        columns(
            item="number",
            status="status",
            run="run_id",
            answer=lambda item: item["reason"] or _answer(item["messages"]),
        ),
    )


def _answer(messages: list[Any]) -> str:
    said = [
        message["content"] for message in messages if message["message_type"] == "assistant_message"
    ]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in said)


def _show_messages(batch: str) -> None:
    """Of a batch to many agents, whose items the server has as messages."""
    path = f"{BATCHES}/{batch}/messages"
    messages, after = [], None
    while page := server().get(path, limit=ITEMS_MAX, order="asc", after=after)["messages"]:
        messages += page
        after = page[-1]["id"]
    show_rows(
        messages,
        columns(
            item="batch_item_id",
            agent="agent_id",
            role="role",
            text=lambda message: " ".join(
                part.get("text", "") for part in message["content"] or []
            ),
        ),
    )


@app.command()
def cancel(batch: Batch) -> None:
    """Begin no more items of a batch, and cancel the runs of those that run."""
    server().patch(f"{BATCHES}/{batch}/cancel")
    say(f"Cancelled {batch}.")
