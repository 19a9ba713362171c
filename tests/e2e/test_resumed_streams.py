"""A background run whose stream is cut every two seconds, and whose api dies twice: every SDK that
resumes where it was cut has in the end, byte for byte, the text that history has."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from letta_client import APIConnectionError, Letta

from tests.e2e.asking import SECONDS_MAX, says, unique
from tests.e2e.conftest import NewAgent
from tests.e2e.node import FOLDER, LEGACY, MODERN, Node
from tests.servers import HeelerInstance, wait_until

RESUME = "POST /v1/runs/{path_run_id}/stream"
CUT_SECONDS = 2.0
KILLS = (2, 4)  # the cuts at which the api dies
GUARD_SECONDS = 200
TEXT = ("Grüße aus Köln, 世界 🐕! " * 36).strip()


def killing(heeler: HeelerInstance) -> Callable[[], None]:
    """What is to be called at each cut."""
    cuts = 0

    def cut() -> None:
        nonlocal cuts
        cuts += 1
        if cuts in KILLS:
            wait_until("the api runs", lambda: heeler.mark("api") is not None, SECONDS_MAX)
            heeler.kill9("api")

    return cut


class Reader:
    """Reads one run in as many streams as it takes, with the Python SDK."""

    def __init__(self, letta: Letta, agent_id: str) -> None:
        self.letta = letta
        self.agent_id = agent_id
        self.run_id: str | None = None
        self.numbers: list[int] = []
        self.texts: dict[str, str] = defaultdict(str)
        self.ended = False

    def read(self) -> None:
        """Take what comes in two seconds, or until the api dies."""
        until = time.monotonic() + CUT_SECONDS
        try:
            with self.opened() as events:
                for event in events:
                    self.take(event)
                    if time.monotonic() > until:
                        return
        except (APIConnectionError, httpx.TransportError):
            return

    def opened(self) -> Any:
        """The stream from its beginning, or from where it was cut."""
        if self.run_id is None:
            return self.letta.agents.messages.stream(
                self.agent_id,
                messages=says(f"DRIP:100 SAY:{TEXT}"),
                stream_tokens=True,
                background=True,
            )
        last = self.numbers[-1] if self.numbers else 0
        return self.letta.runs.messages.stream(self.run_id, starting_after=last)

    def take(self, event: Any) -> None:
        """One event: only what is numbered can be told twice."""
        self.run_id = self.run_id or event.run_id
        self.ended = self.ended or event.message_type == "usage_statistics"
        if event.message_type == "assistant_message":
            self.numbers.append(event.seq_id)
            self.texts[event.id] += event.content


@pytest.mark.operation(RESUME)
@pytest.mark.timeout(GUARD_SECONDS)
def test_python_has_the_text_byte_for_byte_however_often_it_was_cut(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent
) -> None:
    reader = Reader(letta, new_agent(name=unique("resumed")).id)
    cut = killing(heeler)

    while not reader.ended:
        reader.read()
        if not reader.ended:
            cut()
            heeler.wait_healthy()

    kept: Any = letta.agents.messages.list(reader.agent_id).items[-1]
    assert reader.texts[kept.id] == kept.content == TEXT
    assert reader.numbers == sorted(set(reader.numbers))


@pytest.mark.timeout(GUARD_SECONDS)
@pytest.mark.parametrize(
    "client",
    [
        pytest.param("modern", marks=pytest.mark.operation(RESUME, client=MODERN)),
        pytest.param("legacy", marks=pytest.mark.operation(RESUME, client=LEGACY)),
    ],
)
def test_typescript_has_the_text_byte_for_byte_however_often_it_was_cut(
    heeler: HeelerInstance, node: Node, client: str
) -> None:
    cut = killing(heeler)
    said: list[Any] = []

    with subprocess.Popen(
        [node.node, "resume.mjs", client],
        cwd=FOLDER,
        env={**node.environment, "HEELER_TEST_URL": heeler.base_url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "cut\n":
                cut()
            else:
                said.append(json.loads(line))

    heeler.wait_healthy()
    assert process.returncode == 0
    (found,) = said
    assert found["told"] == found["kept"] == found["asked"]
    assert found["numbers"] == sorted(set(found["numbers"]))
