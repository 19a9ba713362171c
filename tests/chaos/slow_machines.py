"""R40: a machine that grants each process 3 % of a core, from the first start on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any
from urllib.request import Request, urlopen

from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.world import World
from tests.servers import HeelerInstance

SHARE = 0.03
LAYOUTS = ("one", "each")  # HEELER_PROCESSES
ANSWER_SECONDS_MAX = 600.0
ENDED_FOR_BEING_ILL = ("does not get well", "is frozen", "ignored the stop signal")


async def r40_slow_machine(_: World, dose: Dose) -> Verdict:
    """Servers of their own start, answer and stop, with everything that they are held to 3 % of a
    core, `up` and `down` too. No process is ended for being slow."""
    verdict = Verdict("R40")
    for processes in LAYOUTS[: dose.faults]:
        await asyncio.to_thread(live_slowly, verdict, processes)
    return verdict


def live_slowly(verdict: Verdict, processes: str) -> None:
    """Start a server, send it a message and stop it."""
    instance = HeelerInstance(env={"HEELER_PROCESSES": processes})
    began, log = time.monotonic(), instance.home / "up"
    try:
        with log.open("w") as output:
            up = slow_command(instance, "up", output)
            while up.poll() is None and "Heeler is up" not in log.read_text():
                time.sleep(0.5)
        verdict.check("Heeler is up" in log.read_text(), f"up failed: {log.read_text()[-500:]}")
        verdict.figures[f"seconds until {processes} is up"] = time.monotonic() - began
        verdict.figures[f"seconds of a message to {processes}"] = message_answered(instance)
        verdict.messages += 1
        verdict.wrong += ended_for_being_ill(instance)
        began, down = time.monotonic(), slow_command(instance, "down", subprocess.DEVNULL)
        verdict.check(down.wait() == 0, "down failed")
        verdict.wrong += ended_for_being_ill(instance)
        verdict.figures[f"seconds until {processes} is down"] = time.monotonic() - began
    finally:
        instance.close()


def slow_command(instance: HeelerInstance, word: str, output: Any) -> subprocess.Popen[bytes]:
    """A command of the launcher on the slow machine; it runs until nothing of it is left."""
    slow = [sys.executable, "-m", "tests.slow_machine", str(SHARE)]
    return subprocess.Popen(
        [*slow, sys.executable, "-m", "deploy.embedded", word],
        env=instance.environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def message_answered(instance: HeelerInstance) -> float:
    """How many seconds an agent takes to answer its first message."""
    began = time.monotonic()
    agent = post(instance, "/v1/agents/", {"name": "slow", "model": "demo/offline"})
    message = {"role": "user", "content": "hello"}
    answer = post(instance, f"/v1/agents/{agent['id']}/messages", {"messages": [message]})
    assert answer["messages"][-1]["message_type"] == "assistant_message", answer
    return time.monotonic() - began


def post(instance: HeelerInstance, path: str, document: dict[str, Any]) -> Any:
    """What the server answers; it has as long as it takes."""
    headers = {"content-type": "application/json"}
    request = Request(f"{instance.base_url}{path}", json.dumps(document).encode(), headers)
    with urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
        return json.load(answer)


def ended_for_being_ill(instance: HeelerInstance) -> list[str]:
    """The parts that were started again, and what the supervisor says of those that it ended."""
    parts = instance.state().parts.values()
    restarted = [f"{part.name} was restarted" for part in parts if part.restarts]
    lines = (instance.home / "logs" / "supervisor.log").read_text().splitlines()
    return restarted + [line for line in lines if any(said in line for said in ENDED_FOR_BEING_ILL)]
