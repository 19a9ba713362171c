"""Summaries: what a model is shown, how often it is asked, and that nothing is asked twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.agent.conversations import Message, Usage
from libs.contracts.agent.summaries import (
    SummarizeMessages,
    SummaryLimits,
    summaries_id,
    summary_passage_id,
)
from libs.contracts.bus_messages import (
    INVALID,
    NOT_FOUND,
    RATE_LIMITED,
    Accepted,
    Context,
    Rejected,
)
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.unit_of_work import Repository
from services.agent import projections
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.domain.summaries.summary_prompts import LENGTHS, PART, PARTS, VERY_SHORT, WHOLE
from services.agent.domain.summaries.summary_transcript import (
    PARTS_MAX,
    HistoryMessage,
    line_of,
    shown_bytes,
    transcript,
)
from tests.contract.examples import AGENT, LLM
from tests.leased_work import finish, sweep
from tests.unit.agent.world import CONVERSATION, Process, World
from tests.unit.given import NOW

SUMMARY = ModelReply("Ada likes tea.", [], "stop", Usage(prompt_tokens=10, completion_tokens=2))
TOO_LONG = ModelFailed(Failure("context_window_exceeded", "too long"))
SMALL = LLM.model_copy(update={"context_window": 2_000})


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await world.agent()
    return world


async def talk(world: World, *texts: str, **fields: Any) -> None:
    """Have these said in the agent's conversation, by the user and the assistant by turns."""
    said = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text, **fields}
        for number, text in enumerate(texts)
    ]
    await append(world, *said)


async def append(world: World, *messages: dict[str, Any]) -> None:
    repository = Repository(
        InMemoryEventStore(world.database, "agent", "setup"), "agent", projections.project
    )
    work = repository.work(Context(world.ids.new("talk"), org="org-1"))
    conversation = await work.load(Conversation, CONVERSATION)
    for fields in messages:
        at = NOW + timedelta(minutes=conversation.version)
        message = Message(**{"id": world.ids.new("message"), "created_at": at, **fields})
        conversation.append(message, at=at)
    await work.commit()


def wanted(number: int = 1, **fields: Any) -> SummarizeMessages:
    return SummarizeMessages(summary_id=f"summary-{number}", agent_id=AGENT, **fields)


async def summarise(
    process: Process, command: SummarizeMessages | None = None
) -> Accepted | Rejected:
    command = command or wanted()
    reply = await process.tell(command, command.summary_id)
    await finish(process.handlers.summaries.writer)
    return reply


def rows(world: World) -> list[Any]:
    return world.schema.rows("summaries")


def prompts(process: Process) -> list[tuple[str, str]]:
    return [
        (str(request.messages[0].content), str(request.messages[1].content))
        for request in process.model.asked
    ]


async def test_a_summary_is_written_and_saved_in_the_archive(world: World) -> None:
    await talk(world, "I like tea.", "So do I.", "Green tea.")
    process = world.process("one", SUMMARY)
    before = world.schema.rows("messages")

    assert await summarise(process) == Accepted(result={"summary_id": "summary-1"})

    [row] = rows(world)
    fields = row["fields"]
    assert (row["status"], fields["summary"]) == ("completed", "Ada likes tea.")
    assert (fields["message_count"], fields["summary_length"]) == (3, "medium")
    assert fields["archival_passage_id"] == summary_passage_id("summary-1")
    [passage] = world.database.schema("memory").rows("passages")
    assert (passage["id"], passage["tags"]) == (summary_passage_id("summary-1"), ["summary"])
    [(prompt, shown)] = prompts(process)
    assert LENGTHS["medium"] in prompt
    assert shown == "user: I like tea.\n\nassistant: So do I.\n\nuser: Green tea."
    assert world.schema.rows("messages") == before, "it changes nothing in the conversation"
    assert not [key for key in world.schema.leases if key == summaries_id(AGENT)]


@pytest.mark.parametrize("length", list(LENGTHS))
async def test_each_length_has_a_template(world: World, length: Any) -> None:
    await talk(world, "I like tea.", "So do I.", "Green tea.")
    process = world.process("one", SUMMARY)
    await summarise(process, wanted(summary_length=length, save_to_archival=False))
    assert LENGTHS[length] in prompts(process)[0][0]
    assert rows(world)[0]["fields"]["archival_passage_id"] is None
    assert world.database.schema("memory").rows("passages") == []


async def test_bounds_say_which_messages_are_meant(world: World) -> None:
    await talk(world, "one", "two", "three", "four")
    dates = {row["text"]: row["created_at"] for row in world.schema.rows("messages")}
    process = world.process("one", SUMMARY, SUMMARY)
    await summarise(process, wanted(message_count=3, save_to_archival=False))
    world.clock.seconds += 61
    command = wanted(2, start_date=dates["one"], end_date=dates["three"], save_to_archival=False)
    await summarise(process, command.model_validate(command.model_dump()))
    shown = [text for _, text in prompts(process)]
    assert shown == [
        "assistant: two\n\nuser: three\n\nassistant: four",
        "user: one\n\nassistant: two\n\nuser: three",
    ]
    second = rows(world)[1]["fields"]
    assert (second["start"], second["end"]) == (dates["one"], dates["three"])


async def test_no_message_is_an_empty_summary_and_counts_not(world: World) -> None:
    process = world.process("one")
    assert await summarise(process) == Accepted(result={"message_count": 0})
    assert await summarise(process, wanted(2)) == Accepted(result={"message_count": 0})
    assert (rows(world), process.model.asked) == ([], [])


async def test_a_single_message_is_its_own_summary(world: World) -> None:
    await talk(world, "I like tea.")
    process = world.process("one")
    await summarise(process)
    assert rows(world)[0]["fields"]["summary"] == "I like tea."
    assert process.model.asked == []


async def test_very_short_conversations_have_a_prompt_of_their_own(world: World) -> None:
    await talk(world, "I like tea.", "So do I.")
    process = world.process("one", SUMMARY)
    await summarise(process, wanted(summary_length="long"))
    assert VERY_SHORT in prompts(process)[0][0]


async def test_a_long_history_is_summarised_in_parts_that_are_combined() -> None:
    world = World()
    await world.start_memory()
    await world.agent(llm_config=SMALL, compaction_settings={"model": None})
    texts = [f"fact {number} " + "x" * 400 for number in range(40)]
    await talk(world, *texts)
    notes = [
        ModelReply(f"notes {number}", [], "stop", Usage(prompt_tokens=1)) for number in range(9)
    ]
    process = world.process("one", *notes)

    await summarise(process)

    asked = prompts(process)
    parts, [(prompt, shown)] = asked[:-1], asked[-1:]
    assert len(parts) > 2
    assert all(PART in part for part, _ in parts)
    everything = "\n".join(text for _, text in parts)
    assert all(f"fact {number} " in everything for number in range(40)), "each stands in a part"
    assert LENGTHS["medium"] in prompt
    assert WHOLE in prompt
    assert shown == "\n\n".join(f"notes {number}" for number in range(len(parts)))
    assert rows(world)[0]["fields"]["usage"]["prompt_tokens"] == len(asked)


async def test_notes_that_are_too_many_for_one_question_are_merged() -> None:
    world = World()
    await world.start_memory()
    small = LLM.model_copy(update={"context_window": 1_000})
    await world.agent(llm_config=small, compaction_settings={"model": None})
    await talk(world, *[f"fact {number} " + "x" * 300 for number in range(60)])
    long = ModelReply("n" * 5_000, [], "stop", Usage())
    process = world.process("one", *[long] * 60)
    await summarise(process)
    asked = prompts(process)
    assert any(PARTS in prompt for prompt, _ in asked)
    assert all(len(shown) <= shown_bytes(1_000) for _, shown in asked)
    assert rows(world)[0]["status"] == "completed"


async def test_a_history_of_any_length_takes_a_bounded_number_of_questions() -> None:
    world = World()
    await world.start_memory()
    await world.agent(llm_config=SMALL, compaction_settings={"model": None})
    await talk(world, *[f"fact {number} " + "x" * 300 for number in range(3_000)])
    note = ModelReply("note", [], "stop", Usage())
    process = world.process("one", *[note] * (2 * PARTS_MAX))
    await summarise(process)
    assert rows(world)[0]["fields"]["message_count"] == 3_000
    assert PARTS_MAX // 2 < len(process.model.asked) <= PARTS_MAX + 8
    assert all(len(shown) <= shown_bytes(2_000) for _, shown in prompts(process))


async def test_what_a_model_has_answered_is_not_asked_again_after_a_crash() -> None:
    world = World()
    await world.start_memory()
    await world.agent(llm_config=SMALL, compaction_settings={"model": None})
    await talk(world, *[f"fact {number} " + "x" * 400 for number in range(20)])
    first, dies = ModelReply("notes 0", [], "stop", Usage()), asyncio.Event()

    async def hang() -> ModelReply:
        dies.set()
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled")

    process = world.process("one", first, hang)
    await process.tell(wanted(), "summary-1")
    await dies.wait()
    await process.handlers.summaries.writer.drain()
    other = world.process("two", *[ModelReply("more", [], "stop", Usage())] * 9)
    world.lease_expires()
    await sweep(other.handlers.summaries.writer)

    shown = [text for _, text in prompts(other)]
    assert "fact 0 " not in "\n".join(shown)
    assert shown[-1].startswith("notes 0\n\nmore")
    assert rows(world)[0]["status"] == "completed"
    await sweep(other.handlers.summaries.writer)
    assert len(prompts(other)) == len(shown)


async def test_a_second_summary_is_refused_until_a_minute_is_over(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", SUMMARY, SUMMARY)
    await summarise(process)
    world.clock.seconds += 20
    refused = await summarise(process, wanted(2))
    assert isinstance(refused, Rejected)
    assert refused.code == RATE_LIMITED
    seconds = refused.details["retry_after_seconds"]
    assert isinstance(seconds, int)
    assert 0 < seconds <= 40
    world.clock.seconds += seconds
    assert isinstance(await summarise(process, wanted(2)), Accepted)


async def test_ten_an_hour_are_allowed_and_a_failed_one_does_not_count(world: World) -> None:
    await talk(world, "one", "two", "three")
    failed = ModelFailed(Failure("llm_rate_limit", "429"))
    process = world.process("one", failed, *[SUMMARY] * 10)
    for number in range(11):
        assert isinstance(await summarise(process, wanted(number)), Accepted)
        world.clock.seconds += 61
    refused = await summarise(process, wanted(11))
    assert isinstance(refused, Rejected)
    assert "10 in one hour" in refused.reason
    assert [row["status"] for row in rows(world)].count("failed") == 1
    error = rows(world)[0]["error"]
    assert (error["error_type"], error["message"]) == ("llm_rate_limit", "429")
    assert len(world.database.schema("memory").rows("passages")) == 10, "nothing of the failed one"


async def test_the_settings_say_how_many_there_may_be(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", SUMMARY, SUMMARY)
    process.handlers.ports.summaries = SummaryLimits(per_minute=2, per_hour=2)
    assert isinstance(await summarise(process), Accepted)
    assert isinstance(await summarise(process, wanted(2)), Accepted)
    refused = await summarise(process, wanted(3))
    assert isinstance(refused, Rejected)
    seconds = refused.details["retry_after_seconds"]
    assert isinstance(seconds, int)
    assert 3_000 < seconds <= 3_600


async def test_one_of_two_at_the_same_time_wins_also_in_two_processes(world: World) -> None:
    await talk(world, "one", "two", "three")
    begun = asyncio.Event()

    async def slowly() -> ModelReply:
        await begun.wait()
        return SUMMARY

    process, other = world.process("one", slowly), world.process("two", slowly)
    replies = await asyncio.gather(
        process.tell(wanted(1), "summary-1"), other.tell(wanted(2), "summary-2")
    )
    assert sorted(type(reply).__name__ for reply in replies) == ["Accepted", "Rejected"]
    begun.set()
    for each in (process, other):
        await finish(each.handlers.summaries.writer)
    assert [row["status"] for row in rows(world)] == ["completed"]


async def test_a_repeated_request_means_the_same_summary(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", SUMMARY)
    command = wanted(request_hash="h-1")
    await summarise(process, command)
    again = wanted(2, request_hash="h-1", retry=True)
    assert await summarise(process, again) == Accepted(result={"summary_id": "summary-1"})
    other = await summarise(process, wanted(3, request_hash="h-2", retry=True))
    assert isinstance(other, Rejected)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (BusUnavailable("away"), "did not answer"),
        (Rejected(code=INVALID, reason="No embedding"), "No embedding"),
    ],
)
async def test_a_summary_that_cannot_be_saved_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, outcome: Any, reason: str
) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", SUMMARY)

    async def request(*_: Any, **__: Any) -> Rejected:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(process.bus, "request", request)
    await summarise(process)
    fields = rows(world)[0]["fields"]
    assert (rows(world)[0]["status"], fields["summary"]) == ("completed", "Ada likes tea.")
    assert fields["archival_passage_id"] is None
    assert reason in fields["archival_error"]


async def test_what_is_too_long_for_a_model_is_shown_it_by_half(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", TOO_LONG, SUMMARY)
    await summarise(process)
    assert rows(world)[0]["status"] == "completed"


async def test_a_summary_without_words_is_a_failure(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", ModelReply("", [], "stop", Usage()))
    await summarise(process)
    assert rows(world)[0]["error"]["error_type"] == "llm_empty_response"


async def test_summaries_go_with_their_agent(world: World) -> None:
    await talk(world, "one", "two", "three")
    process = world.process("one", SUMMARY)
    await summarise(process)
    assert isinstance(await process.tell(DeleteAgent(agent_id=AGENT), "delete"), Accepted)
    assert rows(world) == []
    refused = await summarise(process, wanted(2))
    assert isinstance(refused, Rejected)
    assert refused.code == NOT_FOUND


def test_tools_and_images_are_told_in_words() -> None:
    called = {
        "message_type": "tool_call_message",
        "tool_calls": [{"name": "roll_dice", "arguments": '{"sides": 6}'}],
    }
    thought = {"message_type": "reasoning_message", "reasoning": "hm"}
    returned = {"message_type": "tool_return_message", "tool_returns": [{"tool_return": "4"}]}
    content = [{"type": "text", "text": "Look"}, {"type": "image", "source": {}}]
    seen = {"message_type": "user_message", "content": content}
    lines = [
        line_of(HistoryMessage(1, "assistant", "", [thought, called]), 400),
        line_of(HistoryMessage(2, "tool", "4", [returned]), 400),
        line_of(HistoryMessage(3, "user", "Look", [seen]), 400),
        line_of(HistoryMessage(4, "user", "Large", None), 400),
    ]
    assert lines == [
        'assistant: [called roll_dice({"sides": 6})]',
        "tool result: 4",
        "user: Look [image]",
        "user: Large [the rest of this message is left out]",
    ]


def test_lines_are_shortened_alike_before_any_is_left_out() -> None:
    lines = [f"user: {number} " + "x" * 1_000 for number in range(10)]
    shown = transcript(lines, 5_000)
    assert len(shown) <= 5_000
    assert all(f"user: {number} " in shown for number in range(10))
