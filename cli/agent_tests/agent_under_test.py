"""An agent that was made for one case: what is said to it, and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.agent_tests.answers import (
    ASKS_FOR_APPROVAL,
    FAILED,
    NEEDS_APPROVAL,
    Answer,
    Call,
    Event,
    calls_of,
    events_of,
    said_in,
)
from cli.agent_tests.diagnostics import failure_text
from cli.agent_tests.expectations import check
from cli.agent_tests.mocks import Mocks
from cli.agent_tests.scenarios import Expectation, ModelKind
from cli.server import Server

CLIENT_ROUNDS_MAX = 50  # how often mocked tools are answered in one turn
RUNS_LOOKED_AT_MAX = 10
MESSAGES_SHOWN_MAX = 200  # of a run that failed


class AgentUnderTest:
    """One agent, and all that was said to it. `answers` has a turn each."""

    def __init__(self, server: Server, agent: Any, mocks: Mocks, kind: ModelKind) -> None:
        self.server = server
        self.id = str(agent["id"])
        self.name = str(agent["name"])
        self.kind = kind
        self.mocks = mocks
        self.memory_before = memory_of(agent["blocks"])
        self.answers: list[Answer] = []
        # A run that fails has failed: it is not asked for again.
        self._letta = server.letta.with_options(max_retries=0)
        self._runs: list[str] = []
        self._asked_for: list[Any] = []  # the messages with calls that wait for an approval

    @property
    def memory(self) -> dict[str, str]:
        """The values of the agent's blocks by their labels, as they are now."""
        return memory_of(self.server.get(f"/v1/agents/{self.id}/core-memory/blocks"))

    def say(self, message: str) -> Answer:
        """Send a message of the user; what the agent did until its turn ended."""
        return self._turn(message, [{"role": "user", "content": message}])

    def approve(self, approve: bool = True, reason: str | None = None) -> Answer:
        """Answer the calls that wait for an approval; what the agent did then."""
        waiting = self.answers[-1].waiting if self.answers else []
        answers = [
            self.mocks.result(call)
            if call.name in self.mocks.names
            else {
                "type": "approval",
                "tool_call_id": call.id,
                "approve": approve,
                **({"reason": reason} if reason else {}),
            }
            for call in waiting
        ]
        said = "(approved)" if approve else f"(denied{f': {reason}' if reason else ''})"
        return self._turn(said, [{"type": "approval", "approvals": answers}])

    def expect(self, **expected: Any) -> None:
        """Check the last turn, as `[turns.expect]` of a scenario does; raises AssertionError."""
        __tracebackhide__ = True
        failures = check(self.answers[-1], Expectation.model_validate(expected))
        assert not failures, "\n".join(failure_text("", failure) for failure in failures)

    def _turn(self, said: str, messages: list[Any]) -> Answer:
        asked_for, self._asked_for = self._asked_for, []
        first_run = len(self._runs)
        replies = self._replies(messages, asked_for)
        heard = [message for reply in replies for message in reply["messages"]]
        failure = replies[-1].get("failure")
        events = [Event("user", said), *events_of(heard)]
        answer = Answer(
            said=said,
            text=said_in(heard),
            tool_calls=self._calls([*asked_for, *heard]),
            events=[*events, Event("failure", failure)] if failure else events,
            stop_reason=replies[-1]["stop_reason"]["stop_reason"],
            error=failure,
            run_ids=self._runs[first_run:],
            steps=sum(reply["usage"]["step_count"] for reply in replies),
            tokens=sum(reply["usage"]["total_tokens"] for reply in replies),
            cost_usd=self._cost(self._runs[first_run:]),
            memory=self.memory,
            notes=tuple(self.mocks.unfitting),
        )
        self.mocks.unfitting.clear()
        if answer.waiting:
            self._asked_for = [
                message for message in heard if message["message_type"] == ASKS_FOR_APPROVAL
            ]
        self.answers.append(answer)
        return answer

    def _replies(self, messages: list[Any], asked_for: Sequence[Any]) -> list[Any]:
        """The server's answers, until no call waits that a mock could answer."""
        replies: list[Any] = []
        heard = list(asked_for)
        for _ in range(CLIENT_ROUNDS_MAX):
            replies.append(self._send(messages))
            heard += replies[-1]["messages"]
            self._note_runs(replies[-1]["messages"])
            waiting = [call for call in self._calls(heard) if not call.is_over]
            is_over = replies[-1]["stop_reason"]["stop_reason"] != NEEDS_APPROVAL
            if is_over or not self._is_mocked(waiting):
                break
            returns = [self.mocks.result(call) for call in waiting]
            messages = [{"type": "approval", "approvals": returns}]
        return replies

    def _is_mocked(self, waiting: Sequence[Call]) -> bool:
        return bool(waiting) and all(call.name in self.mocks.names for call in waiting)

    def _calls(self, messages: Sequence[Any]) -> list[Call]:
        return calls_of(messages, self.mocks.names)

    def _send(self, messages: list[Any]) -> Any:
        """The answer of the server; of a run that failed the same, with the `failure`."""
        from letta_client import APIStatusError

        body: dict[str, Any] = {"messages": messages}
        if self.mocks.client_tools:
            body["client_tools"] = self.mocks.client_tools
        try:
            return self._letta.post(f"/v1/agents/{self.id}/messages", cast_to=object, body=body)
        except APIStatusError as problem:
            listed = self.server.get("/v1/runs/", agent_id=self.id, limit=RUNS_LOOKED_AT_MAX)
            failed = [run["id"] for run in listed if run["status"] == "failed"]
            if not failed or failed[0] in self._runs:
                raise
            self._runs.append(failed[0])
            return self._failed(failed[0], reason_of(problem.body) or str(problem))

    def _failed(self, run_id: str, failure: str) -> Any:
        """The messages of a run until it failed: the answer had the reason only."""
        path = f"/v1/runs/{run_id}"
        messages = self.server.get(f"{path}/messages", order="asc", limit=MESSAGES_SHOWN_MAX)
        steps = {message["step_id"] for message in messages if message.get("step_id")}
        return {
            "messages": messages,
            "stop_reason": {"stop_reason": FAILED},
            "usage": {**self.server.get(f"{path}/usage"), "step_count": len(steps)},
            "failure": failure,
        }

    def _note_runs(self, messages: Sequence[Any]) -> None:
        for message in messages:
            run_id = message.get("run_id")
            if run_id and run_id not in self._runs:
                self._runs.append(run_id)

    def _cost(self, runs: Sequence[str]) -> float | None:
        costs = [self.server.get(f"/v1/runs/{run}/usage").get("cost_usd") for run in runs]
        if None not in costs:
            return float(sum(costs))
        # What is not known of a model without a provider is nothing.
        return None if self.kind == "real" else float(sum(cost or 0 for cost in costs))


def memory_of(blocks: Sequence[Any]) -> dict[str, str]:
    """The values of blocks by their labels."""
    return {block["label"]: block["value"] for block in blocks}


def reason_of(body: Any) -> str:
    """Why a run failed, as the error's body says it."""
    match body:
        case {"error": {"message": str(message)}} | {"detail": str(message)}:
            return message
        case _:
            return ""
