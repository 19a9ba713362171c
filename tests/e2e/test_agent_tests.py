"""`heeler test`: scenarios on fresh agents, and what a wrong expectation says."""

from __future__ import annotations

import httpx
import pytest

from cli.__main__ import main
from deploy.embedded.settings import CHECKOUT
from tests.servers import HeelerInstance

EXAMPLES = CHECKOUT / "examples"


@pytest.fixture
def url(heeler: HeelerInstance, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEELER_URL", heeler.base_url)
    return heeler.base_url


def test_the_scenarios_of_the_examples_pass(
    url: str, http: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", str(EXAMPLES), "-n", "2"]) == 0, capsys.readouterr()
    assert "ok " in capsys.readouterr().out
    assert http.get("/v1/agents/", params={"tags": "heeler-test"}).json() == []
