"""TOOL-21: a whole server whose operator has the code of tools run in containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import httpx
import pytest

from deploy.containers.engine import images
from tests.engine import require_containers
from tests.servers import HeelerInstance, wait_until

REMOVED_SECONDS_MAX = 60
LISTED = ("docker", "ps", "-a", "-q", "--filter", "label=heeler.sandbox")
SOURCE = '''
def whoami(word: str) -> str:
    """Say it, and who you are.

    Args:
        word (str): what to say
    """
    import os
    return f"{word} {os.getuid()} {os.path.exists('/.dockerenv')}"
'''


def listed() -> list[str]:
    return subprocess.run(LISTED, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def heeler() -> Iterator[HeelerInstance]:
    require_containers()
    chosen = {
        "HEELER_SANDBOX": "container",
        "HEELER_SANDBOX_IMAGE": images()["HEELER_PYTHON_IMAGE"],
    }
    with HeelerInstance(env=chosen) as heeler:
        yield heeler


def test_a_server_runs_tools_in_containers_and_leaves_none(heeler: HeelerInstance) -> None:
    assert "The code of tools runs by containers" in heeler.log("tools", 500)
    with httpx.Client(base_url=heeler.base_url, timeout=60) as http:
        body = {"source_code": SOURCE, "args": {"word": "hi"}}
        answer = http.post("/v1/tools/run", json=body)
        assert answer.json()["tool_return"] == "hi 65534 True", answer.text
    assert listed(), "some wait for the next call"
    heeler.down()
    wait_until("its containers are gone", lambda: not listed(), REMOVED_SECONDS_MAX)
