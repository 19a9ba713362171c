"""The doctor of a server that runs, and whose model takes tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.__main__ import main
from tests.chosen import in_containers
from tests.servers import HeelerInstance

ASKED = ("health", "postgres", "migrations", "secrets", "nats", "sandbox", "embedding")


@pytest.mark.skipif(in_containers(), reason="it looks at a server of this machine")
def test_all_is_well_with_a_server_that_runs(
    heeler: HeelerInstance,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heeler.wait_healthy()
    for name, value in heeler.environment().items():
        monkeypatch.setenv(name, value)

    assert main(["doctor", "--json", "--deep"]) == 0

    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    states = {(check["name"], check["state"]) for check in report["checks"]}
    assert report["healthy"], report
    assert {(name, "ok") for name in ASKED} <= states, report
    messages = [check["message"] for check in report["checks"]]
    assert any(text.startswith("openai at http://127.0.0.1") for text in messages), messages
    assert any("calls a tool when it is asked to" in text for text in messages), messages
    assert any("as that of Postgres, NATS" in text for text in messages), messages
