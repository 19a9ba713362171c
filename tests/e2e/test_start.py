"""What a process imports before it answers: most of the time of a start is imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.chosen import new_heeler
from tests.e2e.asking import NO_PROVIDER, SECONDS_MAX
from tests.ports import free_port
from tests.servers import CHECKOUT, HeelerInstance, wait_until

# So many there are, and a few more, for releases of libraries differ: who needs more here says why.
MODULES_MAX = {
    # imports, templates, replays, moments and the files of agents have some 130 modules of ours
    "api": 1_540,
    "agent": 1_050,
    "memory": 930,  # pgvector has twelve: 8 ms and 0.8 MB (ADR 21)
    "tools": 1_000,
    "scheduler": 920,
    "groups": 920,
}
# What most processes never need, or only long after their start.
IMPORTED_LATER = {
    *("aiohttp", "anthropic", "httpx", "jsonschema", "mcp", "numpy", "onnxruntime", "openai"),
    *("openpyxl", "tokenizers"),
}
IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| *(\S+)$", re.MULTILINE)


def imported(log: Path) -> set[str]:
    """The modules that a process has told to import, but for folders of ours without code."""
    return {name for name in IMPORTED.findall(log.read_text()) if not is_folder(name)}


def is_folder(name: str) -> bool:
    """Whether a module is a package of ours that only says what is in it."""
    file = CHECKOUT / name.replace(".", "/") / "__init__.py"
    if name.partition(".")[0] not in ("services", "libs") or not file.exists():
        return False
    return len(ast.parse(file.read_text()).body) <= 1


@pytest.fixture(scope="module")
def heeler() -> Iterator[HeelerInstance]:
    """A server of its own, without providers: where there are some, the SDKs come a moment later,
    and an agent service with other providers would publish other prices for those that it joins."""
    with new_heeler(env=NO_PROVIDER) as instance:
        yield instance


@pytest.mark.parametrize("service", MODULES_MAX)
def test_little_is_imported_before_the_first_answer(heeler: HeelerInstance, service: str) -> None:
    known = {*heeler.home.glob("logs/*.log")}
    told = {"PYTHONPROFILEIMPORTTIME": "1", "HEELER_PORT": str(free_port())}
    process = heeler.spawn_service(service, told)

    def answers() -> bool:
        """Whether it tells what it counts."""
        return f':{process.pid}"' in httpx.get(f"{heeler.base_url}/metrics").text

    wait_until(f"one more {service}", answers, SECONDS_MAX)
    [log] = {*heeler.home.glob(f"logs/{service}-replica-*.log")} - known
    modules = imported(log)
    process.terminate()
    process.wait(20)

    print(f"{service}: {len(modules)} modules")
    assert any(name.startswith(f"services.{service}") for name in modules)
    packages = {name.partition(".")[0] for name in modules if "." in name}  # which are really there
    assert packages & IMPORTED_LATER == set()
    assert "opentelemetry.sdk" not in modules
    assert len(modules) <= MODULES_MAX[service]
