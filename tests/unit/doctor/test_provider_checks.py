"""What the doctor makes of the answers of providers."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from deploy.doctor import provider_checks
from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, State
from deploy.doctor.provider_checks import check_providers, check_tools, takes_tools
from deploy.doctor.provider_requests import Answer

BASE = "http://127.0.0.1:11434/v1"


def list_of(*models: dict[str, Any]) -> Answer:
    """The answer of a provider that has these models."""
    return Answer(200, {"object": "list", "data": [*models]})


def found(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Answer], *, deep: bool = False
) -> tuple[list[Finding], list[Finding]]:
    """What is said of a provider that answers so, by the path; and of its tools."""

    def ask(endpoint: Any, path: str, *, kind: str, base: str = "", body: Any = None) -> Answer:
        return answers.get(f"{base or endpoint.base_url}{path}", Answer(404))

    monkeypatch.setattr(provider_checks, "ask", ask)
    given = {"OPENAI_API_BASE": BASE, "OPENAI_API_KEY": "sk-secret-of-the-test"}
    examined = Examined(given=given, deep=deep)
    return check_providers(examined), check_tools(examined)


@pytest.mark.parametrize(
    ("entry", "takes"),
    [
        ({"id": "a"}, None),
        ({"id": "a", "supported_parameters": ["tools", "temperature"]}, True),
        ({"id": "a", "supported_parameters": ["temperature"]}, False),
        ({"id": "a", "capabilities": ["completion", "tool_use"]}, True),
        ({"id": "a", "capabilities": {"function_calling": False}}, False),
    ],
)
def test_lists_may_say_whether_a_model_takes_tools(
    entry: dict[str, Any], takes: bool | None
) -> None:
    assert takes_tools(entry) is takes


def test_models_without_tools_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"id": "a", "supported_parameters": ["temperature"]}
    [listed], [tools] = found(monkeypatch, {f"{BASE}/models": list_of(entry)})
    assert (listed.state, tools.state) == (State.OK, State.WARNING)
    assert "no model in its list takes tools" in tools.message


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (
            Answer(200, {"choices": [{"message": {"tool_calls": [{"name": "tell_time"}]}}]}),
            State.OK,
            "calls a tool",
        ),
        (Answer(200, {"choices": [{"message": {"content": "?"}}]}), State.WARNING, "in words"),
        (Answer(400), State.WARNING, "answers 400"),
        (Answer(error=TimeoutError()), State.WARNING, "does not answer within"),
    ],
)
def test_a_model_is_asked_for_a_call_where_that_may_cost_something(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, state: State, says: str
) -> None:
    answers = {f"{BASE}/models": list_of({"id": "a"}), f"{BASE}/chat/completions": answer}
    _, [tools] = found(monkeypatch, answers, deep=True)
    assert tools.state is state
    assert says in tools.message


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (Answer(503), State.WARNING, "answers with 503"),
        (Answer(200, {"hello": "world"}), State.PROBLEM, "no list of models"),
        (Answer(302), State.PROBLEM, "the address is not right"),
        (Answer(403), State.PROBLEM, "does not accept the key in OPENAI_API_KEY (403)"),
        (Answer(error=ssl.SSLCertVerificationError("x")), State.PROBLEM, "not trusted"),
        (Answer(error=TimeoutError()), State.PROBLEM, "does not answer within"),
        (Answer(error=ConnectionResetError()), State.PROBLEM, "ConnectionResetError"),
    ],
)
def test_each_kind_of_answer_has_its_words_and_a_fix(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, state: State, says: str
) -> None:
    [finding], _ = found(monkeypatch, {f"{BASE}/models": answer})
    assert finding.state is state
    assert says in finding.message
    assert finding.fix
    assert "sk-secret" not in finding.message + finding.fix


@pytest.mark.parametrize(("status", "state"), [(400, State.OK), (404, State.PROBLEM)])
def test_an_address_may_have_no_list_of_models(
    monkeypatch: pytest.MonkeyPatch, status: int, state: State
) -> None:
    answers = {f"{BASE}/models": Answer(404), f"{BASE}/chat/completions": Answer(status)}
    [listed], _ = found(monkeypatch, answers)
    assert listed.state is state
    if state is State.OK:
        assert "has no list of models (404): name them as openai/<model>" in listed.message
