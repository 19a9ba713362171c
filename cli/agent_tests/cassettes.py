"""Recorded replies of a model, and whether it was asked the same when they are given again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cli.agent_tests.expectations import Failure, difference
from cli.agent_tests.model_requests import Asked, asked_in
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import json_or_text
from cli.message_printing import calls_of, text_of
from cli.server import Server
from libs.contracts.agent.scripted_replies import ScriptedCall, ScriptedReply
from libs.contracts.outside_texts import decode_text

SUFFIX = ".cassette.json"
FILE_BYTES_MAX = 16 << 20
STEPS_OF_A_RUN_MAX = 1_000
NOTHING = Asked(system="", tools=[], heard=[])


class RecordedStep(BaseModel):
    """A step: what the model was asked, and what it replied. The system prompt and the tools are
    left out where they are those of the step before."""

    system: str | None = None
    tools: list[str] | None = None
    heard: list[str]
    reply: ScriptedReply


class Cassette(BaseModel):
    """The recorded steps of each turn. Without `exact` system prompts and tools may differ."""

    model: str
    turns: list[list[RecordedStep]]
    exact: bool = True

    @property
    def replies(self) -> list[ScriptedReply]:
        """The replies of all steps, in their order."""
        return [step.reply for turn in self.turns for step in turn]


def read_cassette(file: Path) -> Cassette:
    """The cassette of a file. Raises CommandError."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise CommandError(f"{file} has more than {FILE_BYTES_MAX} bytes", ExitCode.USAGE)
        return Cassette.model_validate_json(decode_text(file.read_bytes()))
    except FileNotFoundError:
        raise CommandError(
            f"There is no {file}: record one with `heeler test --record`, or write `[[model]]`"
        ) from None
    except (OSError, ValueError) as problem:
        raise CommandError(f"{file} is no cassette: {problem}", ExitCode.USAGE) from problem


def write_cassette(file: Path, cassette: Cassette) -> None:
    """Write the file, whole or not at all."""
    beside = file.with_name(f"{file.name}.new")
    document = cassette.model_dump(mode="json", exclude_defaults=True)
    beside.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    beside.replace(file)


def recorded_from(server: Server, turns: Sequence[Sequence[str]]) -> Cassette:
    """The cassette of runs that a server has, by the ids of the runs of each turn."""
    model = ""
    recorded: list[list[RecordedStep]] = []
    before = NOTHING
    for runs in turns:
        steps: list[RecordedStep] = []
        for step in steps_of(server, runs):
            model = step["model_handle"] or step["model"]
            asked = asked_in(server.get(f"/v1/steps/{step['id']}/request")["request"])
            steps.append(
                RecordedStep(
                    system=None if asked.system == before.system else asked.system,
                    tools=None if asked.tools == before.tools else asked.tools,
                    heard=asked.heard,
                    reply=_reply(step, server.get(f"/v1/steps/{step['id']}/messages")),
                )
            )
            before = asked
        recorded.append(steps)
    return Cassette(model=model, turns=recorded)


def steps_of(server: Server, runs: Sequence[str]) -> Iterator[Any]:
    """The steps of runs in which a model replied, the first one first."""
    for run in runs:
        steps = server.pages(f"/v1/runs/{run}/steps", limit=STEPS_OF_A_RUN_MAX)
        yield from reversed([step for step in steps if step["status"] == "success"])


def first_departure(
    server: Server, cassette: Cassette, turn: int, runs: Sequence[str]
) -> Failure | None:
    """Where the runs of a turn asked the model something else than the recording did."""
    recorded = cassette.turns[turn] if turn < len(cassette.turns) else []
    expected = _expected(cassette)[turn] if recorded else []
    steps = list(steps_of(server, runs))
    path = ("turns", turn)
    for number, (step, wanted) in enumerate(zip(steps, expected, strict=False), 1):
        asked = asked_in(server.get(f"/v1/steps/{step['id']}/request")["request"])
        parts = ("system", "tools", "heard") if cassette.exact else ("heard",)
        for part in parts:
            was, now = _lines(getattr(wanted, part)), _lines(getattr(asked, part))
            if was != now:
                words = {"system": "another system prompt", "tools": "other tools"}
                what = words.get(part, "something else")
                message = f"step {number}: the model was asked {what} than when it was recorded"
                return Failure(path, message, difference(was, now))
    if len(steps) != len(expected):
        message = f"the recording has {len(expected)} steps in this turn, and it took {len(steps)}"
        return Failure(path, message)
    return None


def _expected(cassette: Cassette) -> list[list[Asked]]:
    """The requests of each step of each turn, in full."""
    system, tools = NOTHING.system, NOTHING.tools
    turns: list[list[Asked]] = []
    for turn in cassette.turns:
        turns.append([])
        for step in turn:
            system = system if step.system is None else step.system
            tools = tools if step.tools is None else step.tools
            turns[-1].append(Asked(system=system, tools=tools, heard=step.heard))
    return turns


def _lines(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value)


def _reply(step: Any, messages: Sequence[Any]) -> ScriptedReply:
    """The model's reply in a step. Raises CommandError for calls that are no JSON."""
    text, reasoning, calls = "", "", dict[str, ScriptedCall]()
    for message in messages:
        match message["message_type"]:
            case "assistant_message":
                text += text_of(message["content"])
            case "reasoning_message":
                reasoning += message["reasoning"]
            case "tool_call_message" | "approval_request_message":
                for call in calls_of(message):
                    calls[call["tool_call_id"]] = _call(call)
            case _:
                pass
    return ScriptedReply(
        text=text,
        reasoning=reasoning or None,
        tool_calls=list(calls.values()),
        prompt_tokens=step["prompt_tokens"],
        completion_tokens=step["completion_tokens"],
    )


def _call(call: Any) -> ScriptedCall:
    arguments = json_or_text(call["arguments"])
    if not isinstance(arguments, dict):
        raise CommandError(f"The call of {call['name']} cannot be recorded: {call['arguments']!r}")
    return ScriptedCall(name=call["name"], arguments=arguments)
