"""What became of the file that describes an agent: reported, read and among its events."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.asking import NOBODY
from tests.e2e.conftest import NewAgent
from tests.e2e.test_agent_events import events

APPLIED = {"file": "agents/ada.toml", "fingerprint": "sha256:1", "status": "applied"}
PROBLEM = {
    "file": "agents/ada.toml",
    "line": 3,
    "column": 1,
    "code": "unknown_key",
    "message": "`modle` is no key of an agent",
    "expected": "a key of an agent",
    "suggestion": "model",
    "severity": "error",
    "field": "modle",
}
WARNING = {**PROBLEM, "code": "no_description", "line": 1, "severity": "warning"}
PROBLEMS = [WARNING, PROBLEM]
REJECTED = {**APPLIED, "fingerprint": "sha256:2", "status": "rejected", "problems": PROBLEMS}


def test_what_became_of_the_file_of_an_agent_is_reported_read_and_among_its_events(
    http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    path = f"/v1/agents/{agent.id}/configuration"
    assert http.get(path).status_code == 404
    http.put(path, json=APPLIED).raise_for_status()

    answer = http.put(path, json=REJECTED)

    assert answer.status_code == 200, answer.text
    shown = http.get(path).json()
    assert shown == answer.json()
    assert shown["agent_id"] == agent.id
    applied, rejected = shown["applied"], shown["rejected"]
    assert applied.pop("at") < rejected.pop("at")
    assert applied == {"file": APPLIED["file"], "fingerprint": "sha256:1", "problems": []}
    wanted = {"file": APPLIED["file"], "fingerprint": "sha256:2", "problems": PROBLEMS}
    assert rejected == wanted
    told = events(http, agent.id, service="api", include="payload")
    assert [event["topic"] for event in told] == ["configuration.rejected", "configuration.applied"]
    assert (
        told[0]["summary"]
        == "configuration rejected: agents/ada.toml:3: `modle` is no key of an agent"
    )
    assert told[1]["summary"] == "configuration applied: agents/ada.toml"
    assert told[0]["payload"]["configuration"]["problems"] == PROBLEMS
    at_that_time = http.get(f"/v1/agents/{agent.id}", params={"at": told[0]["id"]})
    assert at_that_time.status_code == 200, "the event is a moment as all are"

    http.put(path, json=APPLIED).raise_for_status()

    assert http.get(path).json()["rejected"] is None, "what was applied since is newer"
    http.delete(f"/v1/agents/{agent.id}").raise_for_status()
    assert http.get(path).status_code == http.put(path, json=APPLIED).status_code == 404


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({**APPLIED, "status": "eaten"}, "status"),
        ({**APPLIED, "fingerprint": ""}, "fingerprint"),
        ({**APPLIED, "colour": "red"}, "colour"),
        ({**REJECTED, "problems": []}, "problems"),
        ({**REJECTED, "problems": [PROBLEM] * 101}, "problems"),
        ({**REJECTED, "problems": [{**PROBLEM, "line": -1}]}, "line"),
    ],
)
def test_a_wrong_report_is_named(
    http: httpx.Client, new_agent: NewAgent, body: dict[str, Any], names: str
) -> None:
    answer = http.put(f"/v1/agents/{new_agent().id}/configuration", json=body)

    assert answer.status_code == 422
    assert names in answer.text


def test_a_report_about_no_agent_is_refused(http: httpx.Client) -> None:
    path = f"/v1/agents/agent-{NOBODY}/configuration"

    answers = [http.put(path, json=APPLIED), http.get(path)]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert all(NOBODY in answer.json()["detail"] for answer in answers)
