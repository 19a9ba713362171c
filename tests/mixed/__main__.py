"""One replica of another checkout beside one of this: `python -m tests.mixed ../other`.

The home and the api are the other's. With `--notes` every third agent is asked for what only this
release records, in an event topic that the other does not know. Every third has two clients, and
one that cancels their runs. Exit code 1 if a message was parked, or lost, or not answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from deploy.embedded.settings import CHECKOUT
from deploy.embedded.state import open_secrets
from tests.servers import HeelerInstance
from tests.waiting import wait_for

NOTED = "Note this: "

# So few that their conversations are compacted in a minute.
AGENTS = 12
NOTING_EVERY = CANCELLING_EVERY = 3
CANCEL_EVERY_SECONDS = 1.0
ANSWERED = "200 end_turn"
ANSWERS = (ANSWERED, "200 cancelled")
COUNTED = ("conversation.noted", "conversation.compacted", "queued_runs.cancelled")
SETTLED_SECONDS_MAX = 60.0
STARTED_SECONDS = 10.0
NEWER = ("agent", "memory")


def migrate(heeler: HeelerInstance) -> None:
    """Bring the home up to this release, as its first start would."""
    environment = {
        **heeler.environment(),
        "HEELER_ADMIN_DATABASE_URL": heeler.database_url,
        "HEELER_SERVICE_PASSWORDS": json.dumps(open_secrets(heeler.home).service_passwords),
        "HEELER_NATS_URL": heeler.nats_url,
    }
    command = [sys.executable, "-m", "deploy.migrate"]
    subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, stdout=subprocess.DEVNULL)


async def cancel(web: httpx.AsyncClient, agent: str, until: float) -> None:
    """Cancel now and then all runs of an agent that have not ended."""
    while time.monotonic() < until:
        await web.post(f"/v1/agents/{agent}/messages/cancel")
        await asyncio.sleep(CANCEL_EVERY_SECONDS)


async def talk(
    web: httpx.AsyncClient,
    agent: str,
    number: str,
    until: float,
    said: Counter[str],
    *,
    noted: bool,
) -> list[str]:
    """Send messages to one agent, one after the other; those that were answered."""
    answered: list[str] = []
    for count in range(1_000_000):
        if time.monotonic() > until:
            return answered
        text = f"{NOTED if noted else ''}message {number}.{count}."
        body = {"messages": [{"role": "user", "content": text}]}
        answer = await web.post(f"/v1/agents/{agent}/messages", json=body)
        outcome = str(answer.status_code)
        if answer.status_code == 200:
            outcome += f" {answer.json()['stop_reason']['stop_reason']}"
        said[f"{'noted' if noted else 'plain'} {outcome}"] += 1
        if outcome == ANSWERED:
            answered.append(text)
    return answered


async def load(
    web: httpx.AsyncClient,
    agent: str,
    number: int,
    until: float,
    said: Counter[str],
    *,
    notes: bool,
) -> list[str]:
    """Everything that one agent is asked; the messages that were answered."""
    noted = notes and number % NOTING_EVERY == 0
    talking = talk(web, agent, f"{number}", until, said, noted=noted)
    if number % CANCELLING_EVERY != 1:
        return await talking
    beside = talk(web, agent, f"{number} too", until, said, noted=noted)
    answered, more, _ = await asyncio.gather(talking, beside, cancel(web, agent, until))
    return answered + more


async def run(
    heeler: HeelerInstance, seconds: float, agents_count: int, *, notes: bool
) -> dict[str, Any]:
    """A minute of load, and what is left of it."""
    said: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=heeler.base_url, timeout=60) as web:
        agents = [
            (await web.post("/v1/agents/", json={"name": f"a{n}", "model": "demo/offline"})).json()
            for n in range(agents_count)
        ]
        until = time.monotonic() + seconds
        loads = [
            load(web, agent["id"], number, until, said, notes=notes)
            for number, agent in enumerate(agents)
        ]
        answered = await asyncio.gather(*loads)
        active = "select count(*) from agent.runs where status in ('created', 'running')"
        with contextlib.suppress(AssertionError):  # how many are left is printed
            await wait_for(
                "all runs have ended", lambda: heeler.psql(active) == [(0,)], SETTLED_SECONDS_MAX
            )
        lost = 0
        for agent, texts in zip(agents, answered, strict=True):
            stored = heeler.psql(
                f"select text from agent.messages where agent_id = '{agent['id']}'"
            )
            lost += len({*texts} - {text for (text,) in stored})
        letters = heeler.psql(
            "select name, error_class, count(*), max(error_text) from agent.dead_letters"
            " group by name, error_class"
        )
        topics = dict(heeler.psql("select topic, count(*) from agent.events group by topic"))
    return {
        "answers": dict(said),
        "answered messages that are lost": lost,
        "runs that have not ended": heeler.psql(active)[0][0],
        "dead letters": [  # the text of an error names the file, so also which of the two it was
            dict(zip(("name", "error_class", "count", "error_text"), letter, strict=True))
            for letter in letters
        ],
        "events": {topic: topics.get(topic, 0) for topic in COUNTED},
    }


def flawless(found: dict[str, Any]) -> bool:
    """Whether nothing was parked, lost, left unended or answered with an error."""
    failed = [said for said in found["answers"] if said.split(" ", 1)[1] not in ANSWERS]
    return not (
        failed
        or found["answered messages that are lost"]
        or found["runs that have not ended"]
        or found["dead letters"]
    )


def main() -> None:
    """Print what became of the load."""
    parser = argparse.ArgumentParser(prog="python -m tests.mixed", description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout, with its own .venv")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--notes", action="store_true", help="write the new topic too")
    parser.add_argument(
        "--agents", type=int, default=AGENTS, help="with 60 no conversation grows enough to compact"
    )
    chosen = parser.parse_args()
    with HeelerInstance(checkout=chosen.other.resolve()) as heeler:
        migrate(heeler)
        newer = {"HEELER_SERVICES_PACKAGE": "tests.mixed"}
        heeler.env |= newer
        # A release of before had one user of NATS for all.
        url = {"HEELER_NATS_URL": heeler.nats_url}
        replicas = [heeler.spawn_service(name, url) for name in NEWER]
        time.sleep(STARTED_SECONDS)
        found = asyncio.run(run(heeler, chosen.seconds, chosen.agents, notes=chosen.notes))
        ended = [process.pid for process in replicas if process.poll() is not None]
        assert not ended, (heeler.home / "logs" / "agent-replica-1.log").read_text()[-4_000:]
    print(json.dumps(found, indent=1, default=str))
    sys.exit(not flawless(found))


if __name__ == "__main__":
    main()
