"""Single questions to an agent's model: taken, asked, answered, and never too many at once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.one_off_completions import (
    AskModel,
    GenerateCompletion,
    SampledMessage,
    SampleModel,
    completion_deltas,
    sampling_deltas,
)
from libs.contracts.bus_messages import BUSY, NOT_FOUND, Accepted, JsonObject, Rejected
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine.one_off_completions import AGENT_COMPLETIONS_MAX, Question
from tests.contract.examples import AGENT, LLM
from tests.unit.agent.world import Process, World

SCHEMA: JsonObject = {"type": "object", "properties": {"colour": {"type": "string"}}}
SAID = ModelReply("Blue.", [], "stop", Usage(prompt_tokens=7, completion_tokens=2))


def question(number: int = 1, **fields: Any) -> GenerateCompletion:
    wanted = {"completion_id": f"completion-{number}", "agent_id": AGENT, "prompt": "Which colour?"}
    return GenerateCompletion(**{**wanted, **fields})


async def asked(
    process: Process, command: GenerateCompletion | AskModel | SampleModel
) -> list[Any]:
    """What the asker of a question that is taken is told in the end."""
    told: list[Any] = []
    deltas = sampling_deltas if isinstance(command, SampleModel) else completion_deltas
    subject = deltas("org-1", command.completion_id)
    await process.bus.subscribe_deltas(subject, lambda _, sent: told.append(json.loads(sent)))
    assert await process.tell(command, command.completion_id) == Accepted()
    await ended(process)
    return [text for text in told if text]


async def ended(process: Process) -> None:
    tasks = process.handlers.completions.completions.tasks
    while tasks:
        await asyncio.wait(tasks)


async def test_the_model_is_asked_one_thing_and_nothing_is_recorded() -> None:
    world = World()
    await world.agent()
    process, before = world.process("p-1", SAID), world.story()
    [told] = await asked(process, question(system_prompt="Be brief."))
    assert told["completion"]["content"] == "Blue."
    assert told["completion"]["model"] == LLM.model
    usage = told["completion"]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 2, 9)
    [request] = process.model.asked
    assert [message.content for message in request.messages] == ["Be brief.", "Which colour?"]
    assert (request.tools, request.must_call) == ([], False)
    assert world.story() == before


async def test_an_answer_of_a_form_is_the_arguments_of_a_call_that_has_to_be_made() -> None:
    world = World()
    await world.agent()
    call = ToolCall(id="call-1", name="structured_output", arguments='{"colour": "blue"}')
    process = world.process("p-1", ModelReply("", [call], "tool_calls", Usage()))
    [told] = await asked(process, question(response_schema=SCHEMA))
    assert told["completion"]["content"] == '{"colour": "blue"}'
    [request] = process.model.asked
    assert request.must_call
    assert [tool["parameters"] for tool in request.tools] == [{**SCHEMA, "required": ["colour"]}]


async def test_an_answer_that_has_not_the_form_is_none() -> None:
    world = World()
    await world.agent()
    cut = ToolCall(id="call-1", name="structured_output", arguments='{"colour": "bl')
    process = world.process(
        "p-1",
        ModelReply("", [cut], "length", Usage()),
        ModelReply("Blue.", [], "stop", Usage()),
        ModelReply('{"colour": "blue"}', [], "stop", Usage()),
    )
    told = [
        (await asked(process, question(number, response_schema=SCHEMA)))[-1] for number in range(3)
    ]
    assert "was cut short" in told[0]["problem"]["message"]
    assert "no JSON object" in told[1]["problem"]["message"]
    assert told[2]["completion"]["content"] == '{"colour": "blue"}', "as words it has the form too"


async def test_why_there_is_no_answer_is_told() -> None:
    world = World()
    await world.agent()
    refused = ModelFailed(Failure("llm_rate_limit", "Too many", "slow down"))
    process = world.process("p-1", refused, RuntimeError("a bug"))
    [told] = await asked(process, question())
    assert told["problem"] == {
        "error_type": "llm_rate_limit", "message": "Too many", "detail": "slow down",
    }  # fmt: skip
    [told] = await asked(process, question(2))
    assert told["problem"]["message"] == "An unknown error occurred"


async def test_a_question_is_asked_once_however_often_it_comes() -> None:
    world = World()
    await world.agent()
    first, second = world.process("p-1", SAID), world.process("p-2")
    await asked(first, question())
    assert await second.tell(question(), "completion-1") == Accepted()
    await ended(second)
    assert second.model.asked == []


async def test_a_model_that_hangs_is_waited_for_so_long_and_no_longer() -> None:
    world = World()
    await world.agent()

    async def hang() -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    process = world.process("p-1", hang)
    process.handlers.completions.completions.seconds_max = 0.01
    [told] = await asked(process, question())
    assert told["problem"]["error_type"] == "llm_timeout"
    assert "HEELER_STEP_SECONDS_MAX" in told["problem"]["message"]


async def test_questions_to_one_agent_leave_room_for_those_to_others() -> None:
    world = World()
    await world.agent()
    go_on = asyncio.Event()

    async def wait() -> ModelReply:
        await go_on.wait()
        return SAID

    process = world.process("p-1", *[wait] * AGENT_COMPLETIONS_MAX, SAID)
    for number in range(AGENT_COMPLETIONS_MAX):
        assert await process.tell(question(number), f"completion-{number}") == Accepted()
    refused = await process.tell(question(99), "completion-99")
    assert isinstance(refused, Rejected)
    assert refused.code == BUSY
    completions = process.handlers.completions.completions
    unasked: Any = None
    other = Question(
        id="completion-100",
        agent_id="agent-2",
        org="org-1",
        subject="",
        request=unasked,
        answer=lambda _: {},
        bytes=1,
    )
    assert completions.full(other) is None
    # Those without an agent are those of an organisation, and cost no other one its answer.
    for _ in range(AGENT_COMPLETIONS_MAX):
        completions.of_agent["org-1", ""] += 1
    assert completions.full(replace(other, agent_id="")) is not None
    assert completions.full(replace(other, agent_id="", org="org-2")) is None
    del completions.of_agent["org-1", ""]
    go_on.set()
    await ended(process)
    assert (completions.of_agent, completions.of_organisation, completions.bytes) == ({}, {}, 0)
    [told] = await asked(process, question(98))
    assert told["completion"]["content"] == "Blue."


async def test_who_waits_is_told_when_the_process_ends() -> None:
    world = World()
    await world.agent()

    async def hang() -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError

    process = world.process("p-1", hang)
    told: list[Any] = []
    subject = completion_deltas("org-1", "completion-1")
    await process.bus.subscribe_deltas(subject, lambda _, sent: told.append(json.loads(sent)))
    assert await process.tell(question(), "completion-1") == Accepted()
    await asyncio.sleep(0)
    for task in process.handlers.completions.completions.tasks:
        task.cancel()
    await ended(process)
    assert told[0] == {}, "that there is something to wait for"
    assert told[-1]["problem"]["lost"]


async def test_nobody_is_asked_for_an_agent_or_a_model_that_is_not_there() -> None:
    world = World()
    process = world.process("p-1")
    gone = await process.tell(question(), "completion-1")
    assert isinstance(gone, Rejected)
    assert gone.code == NOT_FOUND
    await world.agent()
    unknown = await process.tell(question(2, model="openai/nobody"), "completion-2")
    assert isinstance(unknown, Rejected)
    assert (unknown.code, "openai/nobody" in unknown.reason) == (NOT_FOUND, True)


def sampling(number: int = 1, **fields: Any) -> SampleModel:
    wanted: dict[str, Any] = {
        "completion_id": f"completion-{number}",
        "agent_id": AGENT,
        "messages": [SampledMessage(role="user", content="Which colour?")],
        "max_tokens": 50,
        "stop_sequences": [],
    }
    return SampleModel(**{**wanted, **fields})


async def test_an_mcp_server_has_the_model_of_an_agent_asked_as_it_wants() -> None:
    """TOOL-14: messages, system prompt, temperature, the most tokens; nothing of the agent's."""
    world = World()
    await world.agent()
    process, before = world.process("p-1", SAID), world.story()
    messages = [
        SampledMessage(role="user", content="Which colour?"),
        SampledMessage(role="assistant", content="Of what?"),
        SampledMessage(role="user", content=[{"type": "text", "text": "The sky."}]),
    ]
    wanted = {"messages": messages, "system_prompt": "Be brief.", "temperature": 0.1}
    [told] = await asked(process, sampling(**wanted))
    answer = told["completion"]
    assert (answer["content"], answer["stop_reason"]) == ("Blue.", "endTurn")
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (7, 2)
    [request] = process.model.asked
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert [message.content for message in request.messages][:3] == [
        "Be brief.",
        "Which colour?",
        "Of what?",
    ]
    llm = request.config.llm_config
    assert (llm.max_tokens, llm.temperature, llm.enable_reasoner) == (50, 0.1, False)
    assert (request.tools, request.must_call) == ([], False)
    assert world.story() == before


async def test_an_answer_ends_before_a_stop_sequence_or_says_that_it_was_cut() -> None:
    world = World()
    await world.agent()
    reply = ModelReply("One. Two; three.", [], "stop", Usage())
    cut = ModelReply("One.", [], "length", Usage())
    process = world.process("p-1", reply, reply, cut)
    answers = [
        (await asked(process, sampling(number, stop_sequences=stops)))[-1]["completion"]
        for number, stops in enumerate(([";", " Two"], ["nowhere", ""], []))
    ]
    assert [(answer["content"], answer["stop_reason"]) for answer in answers] == [
        ("One.", "stopSequence"),
        ("One. Two; three.", "endTurn"),
        ("One.", "maxTokens"),
    ]


async def test_what_mcp_servers_ask_leaves_half_of_the_room_to_others() -> None:
    world = World()
    await world.agent()
    go_on = asyncio.Event()

    async def wait() -> ModelReply:
        await go_on.wait()
        return SAID

    half = AGENT_COMPLETIONS_MAX // 2
    process = world.process("p-1", *[wait] * (half + 1))
    for number in range(half):
        assert await process.tell(sampling(number), f"completion-{number}") == Accepted()
    refused = await process.tell(sampling(99), "completion-99")
    assert isinstance(refused, Rejected)
    assert refused.code == BUSY
    assert await process.tell(question(50), "completion-50") == Accepted()
    go_on.set()
    await ended(process)


async def test_a_model_of_the_organisation_is_asked_without_an_agent() -> None:
    """API-12: what a tool is written by; its words stand beside the answer."""
    world = World()
    call = ToolCall(id="call-1", name="structured_output", arguments='{"colour": "blue"}')
    reply = ModelReply("Here it is.", [call], "tool_calls", Usage())
    process = world.process("p-1", reply)
    command = AskModel(
        completion_id="completion-1",
        model=str(LLM.handle),
        prompt="Which colour?",
        response_schema=SCHEMA,
    )
    [told] = await asked(process, command)
    answer = told["completion"]
    assert (answer["content"], answer["said"]) == ('{"colour": "blue"}', "Here it is.")
    [request] = process.model.asked
    assert (request.config.id, request.config.llm_config.handle) == ("", LLM.handle)
    unknown = command.model_copy(update={"completion_id": "completion-2", "model": "openai/nobody"})
    refused = await process.tell(unknown, "completion-2")
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND
