"""python -m benchmarks.agent_round_trip: export, delete and import an agent with a long history.

What must hold: the agent is the same afterwards, and no service needs more than 200 MB besides.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cpu import roots_of_home, tree
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.deterministic_ids import derived_id
from libs.embeddings.vector_encoding import pack_vector
from tests.servers import HeelerInstance

MESSAGES, PASSAGES = 100_000, 10_000
DIMENSIONS = 384
EVENTS_AT_ONCE = 500
# Models are shown the last messages: as often the older ones leave the context.
CONTEXT_MESSAGES = 200
RSS_GROWTH_MB_MAX = 200.0
SECONDS_MAX = 3_600.0
PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
CONFIG = {
    "model": "gpt-4o-mini",
    "model_endpoint_type": "openai",
    "handle": "openai/gpt-4o-mini",
    "context_window": 128_000,
}


def past(topic: str, at: datetime, **payload: Any) -> dict[str, Any]:
    """An event as a line has it."""
    return {"topic": topic, "payload": payload, "occurred_at": at.isoformat()}


def history(service: str, name: str, first: int, events: list[Any], *, ends: bool) -> Any:
    """The next events of an aggregate as a line."""
    part = {"aggregate_id": name, "first_version": first, "complete": ends, "events": events}
    return {"kind": "history", "service": service, "history": part}


def long_agent(agent_id: str, messages: int, passages: int) -> Iterator[Any]:
    """The lines of an agent with so many messages and passages, without the footer."""
    archive = derived_id("archive", agent_id, "bench")
    yield {
        "kind": "header",
        "written_by": "benchmark",
        "exported_at": BEGAN.isoformat(),
        "agent_ids": [agent_id],
    }
    value = {"name": "facts", "created_at": BEGAN.isoformat()}
    definition = {"of": "archive", "id": archive, "value": value, "attached_to": [agent_id]}
    yield {"kind": "definition", **definition}
    for number in range(passages):
        yield passage(archive, number)
    yield from conversation(agent_id, messages)
    at = BEGAN.isoformat()
    config = {
        "id": agent_id,
        "name": "long",
        "system": "Be brief.",
        "llm_config": CONFIG,
        "created_at": at,
        "updated_at": at,
    }
    nothing: dict[str, list[str]] = {"tools": [], "tags": [], "block_ids": [], "own_block_ids": []}
    yield history(
        "agent", agent_id, 1, [past("agent.created", BEGAN, config=config, **nothing)], ends=True
    )


def passage(archive: str, number: int) -> Any:
    """A passage with a vector of its own."""
    vector = [0.0] * DIMENSIONS
    vector[number % DIMENSIONS] = 1.0
    embedding = {"model": "bench/none", "dimensions": DIMENSIONS, "vector": pack_vector(vector)}
    text = f"Fact number {number}: " + "bees make honey " * 20
    event = past(
        "passage.created", BEGAN, archive_id=archive, text=text, embedding=embedding, metadata={}
    )
    return history("memory", derived_id("passage", archive, str(number)), 1, [event], ends=True)


def conversation(agent_id: str, messages: int) -> Iterator[Any]:
    """The history of the agent's own conversation, some events in each line."""
    name, first, events, shown = main_conversation(agent_id), 1, [], list[str]()
    for number in range(messages):
        at = BEGAN + timedelta(seconds=number)
        message_id = derived_id("message", agent_id, str(number))
        role = "system" if number == 0 else ("user", "assistant")[number % 2]
        content = f"Message {number}: " + "words and more words " * 10
        message = {"id": message_id, "role": role, "content": content, "created_at": at.isoformat()}
        events.append(past("message.appended", at, agent_id=agent_id, message=message))
        shown += [message_id] if number else []
        if len(shown) == CONTEXT_MESSAGES:
            events.append(past("context.cleared", at, agent_id=agent_id, evicted=shown))
            shown = []
        if len(events) >= EVENTS_AT_ONCE:
            yield history("agent", name, first, events, ends=number == messages - 1)
            first, events = first + len(events), []
    if events:
        yield history("agent", name, first, events, ends=True)


def write(lines: Iterator[Any], file: Path) -> None:
    """Write lines with their footer, packed."""
    counts, digest = Counter[str](), hashlib.sha256()
    with gzip.open(file, "wb", compresslevel=3) as packed:
        for line in lines:
            raw = json.dumps(line).encode() + b"\n"
            counts[line["kind"]] += 1
            digest.update(raw)
            packed.write(raw)
        footer = {"kind": "footer", "counts": counts, "sha256": digest.hexdigest()}
        packed.write(json.dumps(footer).encode() + b"\n")


def peaks_mb(roots: Mapping[str, int]) -> dict[str, float]:
    """The most memory that each process has had since it was asked last."""
    found = {}
    for name, pid in roots.items():
        most = 0
        for process in tree(pid):
            status = Path(f"/proc/{process.pid}/status")
            peak = PEAK.search(status.read_text()) if status.exists() else None
            most = max(most, int(peak.group(1)) if peak else 0)
            (Path(f"/proc/{process.pid}/clear_refs")).write_text("5")
        found[name] = most / 1_024
    return found


def imported(http: httpx.Client, file: Path, **fields: str) -> str:
    """The id of the agent that a file makes."""
    with file.open("rb") as packed:
        answer = http.post("/v1/agents/import", files={"file": packed}, params=fields)
    assert answer.status_code == 200, answer.text[:2_000]
    [agent_id] = answer.json()["agent_ids"]
    return str(agent_id)


def digest_of(http: httpx.Client, agent_id: str) -> tuple[str, int]:
    """A digest of all that the API says of an agent, and how many messages there are."""
    digest, count = hashlib.sha256(), 0
    agent = http.get(f"/v1/agents/{agent_id}").json()
    digest.update(json.dumps(agent, sort_keys=True).encode())
    for path in (f"/v1/agents/{agent_id}/messages", f"/v1/agents/{agent_id}/archival-memory"):
        after = ""
        while True:
            page = http.get(f"{path}?limit=1000&order=asc&ascending=true{after}").json()
            digest.update(json.dumps(page, sort_keys=True).encode())
            count += len(page) if "messages" in path else 0
            if len(page) < 1_000:
                break
            after = f"&after={page[-1]['id']}"
    return digest.hexdigest(), count


def run(messages: int, passages: int) -> bool:
    """Make the trip and print what it took; returns whether all that must hold did."""
    agent_id = derived_id("agent", "benchmark", str(messages))
    with tempfile.TemporaryDirectory() as folder, HeelerInstance() as heeler:
        made, again = Path(folder) / "made.gz", Path(folder) / "exported.gz"
        write(long_agent(agent_id, messages, passages), made)
        roots = {
            name: pid
            for name, pid in roots_of_home(heeler.home)().items()
            if name in ("api", "agent", "memory")
        }
        with httpx.Client(base_url=heeler.base_url, timeout=SECONDS_MAX) as http:
            before, grew = peaks_mb(roots), dict.fromkeys(roots, 0.0)

            def step(what: str, began: float) -> None:
                now = peaks_mb(roots)
                for name in roots:
                    grew[name] = max(grew[name], now[name] - before[name])
                told = ", ".join(f"{name} {now[name]:.0f}" for name in roots)
                print(f"{what}: {time.monotonic() - began:.1f} s; peak MB: {told}", flush=True)

            began = time.monotonic()
            imported(http, made)
            step(f"import of {messages} messages and {passages} passages", began)
            first = digest_of(http, agent_id)
            began = time.monotonic()
            path = f"/v1/agents/{agent_id}/export?format=heeler"
            with http.stream("GET", path) as answer, again.open("wb") as file:
                for chunk in answer.iter_bytes():
                    file.write(chunk)
            step(f"export of {again.stat().st_size >> 20} MiB", began)
            http.delete(f"/v1/agents/{agent_id}").raise_for_status()
            began = time.monotonic()
            imported(http, again, conflicts="replace")
            step("import of the export", began)
            second = digest_of(http, agent_id)
    same = first == second and first[1] >= messages
    print(f"the same agent: {'yes' if same else f'NO: {first} {second}'}")
    small = all(growth <= RSS_GROWTH_MB_MAX for growth in grew.values())
    print(", ".join(f"{name} grew by {growth:.0f} MB" for name, growth in grew.items()))
    return same and small


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent_round_trip")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--passages", type=int, default=PASSAGES)
    options = parser.parse_args()
    return 0 if run(options.messages, options.passages) else 1


if __name__ == "__main__":
    sys.exit(main())
