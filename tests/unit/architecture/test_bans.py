"""Only adapters read clocks, roll dice and speak to servers: the linter says so, and it is on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BANNED = [
    "import time\n\nstarted = time.monotonic()\n",
    "from time import sleep\n\nsleep(1)\n",
    "import random\n\nchance = random.random()\n",
    "import uuid\n\nfresh = uuid.uuid4()\n",
    "from uuid import uuid4\n\nfresh = uuid4()\n",
    "from datetime import UTC, datetime\n\nnow = datetime.now(UTC)\n",
    "import datetime\n\nnow = datetime.datetime.now(datetime.UTC)\n",
    "from datetime import datetime\n\nnow = datetime.utcnow()\n",
    "import nats\n\nconnect = nats.connect\n",
    "from nats.errors import Error\n\nodd = Error\n",
    "import psycopg\n\nconnect = psycopg.connect\n",
]
PURE = [
    "services/agent/domain/agents/agent.py",
    "services/agent/handlers/runs.py",
    "services/agent/engine/run_scheduling.py",
    "services/agent/projections/runs.py",
    "services/agent/app.py",
    "services/memory/domain/block.py",
    "services/api/resources/agents/agents.py",
    "libs/contracts/deterministic_ids.py",
]
ADAPTERS = [
    "services/agent/adapters/run_queries.py",
    "services/memory/adapters/agent_attachments.py",
    "services/api/adapters/resource_query_builder.py",
    "libs/bus/clock_and_ids.py",
    "libs/eventstore/postgres.py",
]


def bans(path: str, text: str) -> list[str]:
    """The messages of the ban, for this text at this path."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "json"),
            *("--select", "TID251", "--stdin-filename", path, "-"),
        ],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode in (0, 1), result.stderr
    return [found["message"] for found in json.loads(result.stdout)]


@pytest.mark.parametrize("text", BANNED, ids=lambda text: text.partition("\n")[0])
def test_the_domain_may_not_reach_for_the_world(text: str) -> None:
    assert bans("services/agent/domain/agents/agent.py", text)


@pytest.mark.parametrize("path", PURE)
def test_every_room_but_the_adapters_is_under_the_ban(path: str) -> None:
    assert (ROOT / path).exists()
    assert bans(path, "".join(BANNED)), path


@pytest.mark.parametrize("path", ADAPTERS)
def test_adapters_may_reach_for_the_world(path: str) -> None:
    assert (ROOT / path).exists()
    assert bans(path, "".join(BANNED)) == []


def test_a_ban_says_what_to_do_instead() -> None:
    [said, *_] = bans("services/agent/handlers/runs.py", BANNED[5])
    assert "Clock port" in said
