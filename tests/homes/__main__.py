"""Record a home: `python -m tests.homes v1.2` makes one with this release and lives in it.

Its database and the API's answers are kept in `tests/recorded/homes/v1.2`. With `--checkout
../other` it is made by another checkout, which has its own `.venv`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import nats

from deploy.embedded.postgres_server import wheel_tree
from deploy.embedded.settings import CHECKOUT
from libs.contracts.bus_messages import DEFAULT_ORG
from tests.homes import ANSWERS, DUMP, FOLDER
from tests.servers import HeelerInstance, wait_until

# So many that there is a snapshot of the conversation: a message is several events.
SMALL_TALK = 30
FACT = "Remember that my favourite tea is lapsang souchong."
CONFIG = {"model": "demo/offline"}


def live(heeler: HeelerInstance) -> dict[str, str]:
    """Make agents, blocks, messages, a tool call, an attached block and a dead letter; what the
    API answers afterwards, by path."""
    with httpx.Client(base_url=heeler.base_url, timeout=60) as web:

        def post(path: str, body: dict[str, Any]) -> Any:
            answer = web.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        wait_until(
            "the models are known",
            lambda: web.post("/v1/agents/", json={"name": "first", **CONFIG}).status_code == 200,
            30,
        )
        blocks = [{"label": "human", "value": "A person."}, {"label": "persona", "value": "Kind."}]
        talker = post("/v1/agents/", {"name": "talker", "memory_blocks": blocks, **CONFIG})["id"]
        silent = post("/v1/agents/", {"name": "silent", "tags": ["quiet"], **CONFIG})["id"]
        shared = post("/v1/blocks/", {"label": "house", "value": "Tidy. Ünïcode ✓ 1e308"})["id"]
        for agent in (talker, silent):
            web.patch(f"/v1/agents/{agent}/core-memory/blocks/attach/{shared}").raise_for_status()

        def say(agent: str, text: str) -> None:
            messages = [{"role": "user", "content": text}]
            post(f"/v1/agents/{agent}/messages", {"messages": messages})

        say(talker, FACT)
        for number in range(SMALL_TALK):
            say(talker, f"Number {number} is nice.")
        say(silent, "Good morning.")
        asyncio.run(park(heeler.nats_url))
        letters = "/v1/admin/dead-letters"
        wait_until("a dead letter", lambda: web.get(letters).json() != [], 30)
        paths = ["/v1/agents/", "/v1/blocks/", "/v1/runs/", letters]
        for agent in (talker, silent):
            paths += [
                f"/v1/agents/{agent}",
                f"/v1/agents/{agent}/core-memory/blocks",
                f"/v1/agents/{agent}/messages?limit=500",
            ]
        return {path: web.get(path).raise_for_status().text for path in paths}


async def park(nats_url: str) -> None:
    """Send a command that no process can read."""
    bus = await nats.connect(nats_url)
    subject = f"agent.command.agent.update.{DEFAULT_ORG}.agent-1"
    await bus.publish(subject, b'{"how": "slowly"}', headers={"ce-id": "message-of-the-home"})
    await bus.close()


def dump(database_url: str) -> bytes:
    """The database as SQL."""
    command = [str(wheel_tree() / "bin" / "pg_dump"), "--no-owner", database_url]
    return subprocess.run(command, check=True, capture_output=True).stdout


def main() -> None:
    """Record one home."""
    parser = argparse.ArgumentParser(prog="python -m tests.homes", description=__doc__)
    parser.add_argument("name", help="the release, and the folder in tests/recorded/homes")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help="who makes the home")
    chosen = parser.parse_args()
    with HeelerInstance(checkout=chosen.checkout.resolve()) as heeler:
        answers = live(heeler)
        wait_until(
            "everything is published",
            lambda: (
                heeler.psql("select count(*) from agent.events")
                == heeler.psql("select published from agent.relay")
            ),
            30,
        )
        text = dump(heeler.database_url)
    # A traceback in a dead letter names files: where they were is nobody's business.
    place = f"{chosen.checkout.resolve()}/"
    text = text.replace(place.encode(), b"")
    answers = {path: answer.replace(place, "") for path, answer in answers.items()}
    folder = FOLDER / chosen.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DUMP).write_bytes(gzip.compress(text, mtime=0))
    (folder / ANSWERS).write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    print(f"{folder}: {os.path.getsize(folder / DUMP)} bytes of dump, {len(answers)} answers")


if __name__ == "__main__":
    main()
