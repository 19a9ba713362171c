"""Conversations that outgrow the window of their model: R24, and what compactions do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.agent.stored_to_letta_messages import text_of
from libs.contracts.bus_messages import Accepted, Rejected
from services.agent.adapters.models.answer_assembly import CALLS_MAX
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.prompts import compaction_plan
from services.agent.domain.prompts.compaction_plan import NO_MODEL
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.compaction import NOTHING_TO_COMPACT
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine import compaction
from tests.contract.examples import AGENT, LLM, RUN_CONFIG, message
from tests.scripted_model import validator
from tests.unit.agent.compaction_chat import (
    BROKEN,
    MODES,
    SUMMARY,
    USAGE,
    WINDOW,
    Chat,
    words,
)
from tests.unit.agent.world import World

TOO_LONG = ModelFailed(Failure("context_window_exceeded", "too long"))


@pytest.fixture
def chat() -> Chat:
    return Chat(World())


def shown(request: ModelRequest) -> str:
    return "\n".join(text_of(prompt_message) for prompt_message in request.messages)


class TestR24:
    @pytest.mark.parametrize("mode", MODES)
    async def test_r24_a_history_of_three_windows_is_compacted_before_the_first_step(
        self, chat: Chat, mode: str
    ) -> None:
        await chat.begin(window=60_000, mode=mode)
        await chat.talk(12, 1_000)
        await self.narrow(chat, 2_000, mode)
        history = chat.readable()
        await chat.say("what now?", SUMMARY, words("this"))
        assert chat.run()["status"] == "completed"
        assert len(chat.compactions) == 1
        assert "what now?" in shown(chat.asked[-1])
        assert "They talked about cats." in shown(chat.asked[-1])
        assert (
            sum(len(text_of(prompt_message)) for prompt_message in chat.asked[-1].messages)
            < 4 * 2_000
        )
        assert chat.readable() == [*history, "what now?", "this"], "all of it stays readable"
        chat.check()
        await chat.say("and then?", words("that"))
        assert chat.run()["status"] == "completed"

    @pytest.mark.parametrize("mode", MODES)
    async def test_r24_a_summariser_that_fails_stops_nobody(self, chat: Chat, mode: str) -> None:
        await chat.begin(window=60_000, mode=mode)
        await chat.talk(12, 1_000)
        await self.narrow(chat, 2_000, mode)
        history = chat.readable()
        own_too_long = mode == "self_compact_all"
        tries = {"all": 1}.get(mode, 2)
        await chat.say("what now?", *[BROKEN] * tries, words("this"))
        [compaction] = chat.compactions
        assert (compaction.mode, compaction.model) == ("mechanical", None)
        assert len(compaction.failures) == tries + own_too_long
        assert chat.run()["status"] == "completed"
        assert NO_MODEL in shown(chat.asked[-1])
        assert "what now?" in shown(chat.asked[-1])
        assert chat.readable() == [*history, "what now?", "this"]
        chat.check()
        await chat.say("next", words("works"))
        assert chat.run()["status"] == "completed"

    async def narrow(self, chat: Chat, window: int, mode: str) -> None:
        """The agent gets a smaller window."""
        from libs.contracts.bus_messages import Context
        from services.agent.domain.agents.agent import Agent
        from tests.unit.given import NOW

        work = chat.process.repository.work(Context("narrow", org="org-1"))
        agent = await work.load(Agent, AGENT)
        design = agent.design
        assert design is not None
        llm = design.config.llm_config.model_copy(update={"context_window": window})
        config = design.config.model_copy(update={"llm_config": llm})
        changed = design.model_copy(update={"config": config})
        assert agent.update(["llm_config"], changed, at=NOW) is None
        await work.commit()


class TestAutomatic:
    async def test_a_conversation_that_grows_for_ever_stays_within_the_window(
        self, chat: Chat
    ) -> None:
        await chat.begin()

        async def answered() -> ModelReply:
            prompt = text_of(chat.asked[-1].messages[0])
            return SUMMARY if prompt.startswith("Summarise") else words("a" * 300)

        for number in range(60):
            await chat.say(f"{number} " + "q" * 300, answered, answered)
            chat.process.model.turns.clear()
            assert chat.run()["status"] == "completed"
            assert sum(len(text_of(prompt_message)) for prompt_message in chat.window) < 4 * WINDOW
        assert 3 < len(chat.compactions) < 20
        assert len([t for t in chat.readable() if t.endswith("q" * 300)]) == 60
        chat.check()

    async def test_a_provider_that_says_too_long_gets_less_each_time(self, chat: Chat) -> None:
        await chat.begin(window=60_000)
        await chat.talk(6, 500)
        await chat.say("and?", TOO_LONG, SUMMARY, TOO_LONG, SUMMARY, words("well"))
        assert chat.run()["status"] == "completed"
        sizes = [len(shown(request)) for request in (chat.asked[6], chat.asked[8], chat.asked[10])]
        assert sizes == sorted(sizes, reverse=True)
        assert [
            event.message.summary.stats["trigger"]
            for event in chat.compactions
            if event.message.summary
        ] == ["context_window_exceeded"] * 2
        chat.check()

    async def test_a_window_that_the_provider_names_is_kept_from_then_on(self, chat: Chat) -> None:
        await chat.begin(window=60_000)
        await chat.talk(6, 500)
        named = ModelFailed(Failure("context_window_exceeded", "too long", window=1_000))
        await chat.say("and?", named, SUMMARY, words("well"))
        assert chat.run()["status"] == "completed"
        assert len(chat.compactions) == 1
        for number in range(12):
            reached = len(shown(chat.asked[-1]))
            await chat.say(f"{number} " + "q" * 300, words("a" * 300), words("a" * 300))
            chat.process.model.turns.clear()
            assert chat.run()["status"] == "completed"
        assert reached < 4 * 1_000, "it was not asked for more than it can take"
        assert len(chat.compactions) > 1, "and there was more to say"
        chat.check()

    async def test_a_provider_that_always_says_too_long_fails_the_run_and_no_more(
        self, chat: Chat
    ) -> None:
        await chat.begin(window=60_000)
        await chat.talk(6, 500)

        async def refused() -> Any:
            prompt = text_of(chat.asked[-1].messages[0])
            return SUMMARY if prompt.startswith("Summarise") else TOO_LONG

        await chat.say("and?", *[refused] * 12)
        chat.process.model.turns.clear()
        assert chat.run()["status"] == "failed"
        assert chat.run()["error"]["error_type"] == "context_window_exceeded"
        assert len(chat.compactions) <= 3
        await chat.say("hello?", words("yes"))
        assert chat.run()["status"] == "completed"

    async def test_one_message_larger_than_the_window_is_answered_from_a_summary(
        self, chat: Chat
    ) -> None:
        await chat.begin()
        await chat.say("hi", words())
        await chat.say("x" * 40_000, SUMMARY, words("so long"))
        assert chat.run()["status"] == "completed"
        assert len(shown(chat.asked[-2])) < 4 * LLM.context_window
        assert "x" * 2_000 not in shown(chat.asked[-1])
        assert "x" * 40_000 in chat.readable()
        chat.check()

    async def test_a_system_prompt_that_fills_the_window_is_said_to_be_too_long(
        self, chat: Chat
    ) -> None:
        await chat.begin(window=50)
        await chat.say("hi")
        assert chat.asked == []
        reason = "context_window_overflow_in_system_prompt"
        assert (chat.run()["stop_reason"], chat.run()["error"]["error_type"]) == (reason, reason)
        assert "context_window_limit" in chat.run()["error"]["message"]

    async def test_what_the_provider_counted_corrects_the_estimate(self, chat: Chat) -> None:
        await chat.begin(window=4_000)
        many = Usage(prompt_tokens=3_500, completion_tokens=5)
        await chat.say("hi " + "q" * 3_000, ModelReply("a" * 3_000, [], "stop", many))
        await chat.say("again", SUMMARY, words())
        assert len(chat.compactions) == 1, "by bytes it was half full"

    async def test_a_compaction_between_two_steps_keeps_calls_with_their_results(
        self, chat: Chat
    ) -> None:
        await chat.begin()
        call = ToolCall(
            id="call_1", name="conversation_search", arguments='{"query":"' + "c" * 5_000 + '"}'
        )
        await chat.say("look", ModelReply("", [call], "tool_calls", USAGE), SUMMARY, words("found"))
        assert chat.run()["status"] == "completed"
        chat.check()

    @pytest.mark.parametrize("window", [120, 200, 300, 600])
    async def test_tiny_windows_answer_or_say_why_not(self, chat: Chat, window: int) -> None:
        await chat.begin(window=window)

        async def answered() -> ModelReply:
            prompt = text_of(chat.asked[-1].messages[0])
            return SUMMARY if prompt.startswith("Summarise") else words("a" * 200)

        for number in range(12):
            await chat.say(f"{number} " + "q" * 400, *[answered] * 8)
            chat.process.model.turns.clear()
            row = chat.run()
            assert row["status"] == "completed" or row["error"]["error_type"].startswith("context")
            assert len(chat.window) < 12
        assert len([text for text in chat.readable() if text.endswith("q" * 400)]) == 12
        chat.check()

    async def test_thousands_of_messages_at_once_are_bounded(
        self, chat: Chat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction_plan, "WINDOW_MESSAGES_MAX", 50)
        await chat.begin(window=1_000_000)
        await chat.talk(26, 1)
        await chat.say("more", SUMMARY, words())
        assert len(chat.compactions) == 1
        assert len(chat.window) < 50
        chat.check()

    def test_a_window_has_no_more_messages_than_the_strictest_provider_takes(self) -> None:
        assert compaction_plan.WINDOW_MESSAGES_MAX + CALLS_MAX < validator.MESSAGES_MAX

    async def test_images_count_in_bytes_too(
        self, chat: Chat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction_plan, "WINDOW_BYTES_MAX", 100_000)
        await chat.begin(window=1_000_000, mode="all")
        await chat.talk(2, 10)
        data = {"type": "base64", "media_type": "image/png", "data": "A" * 200_000}
        image = message(300, role="user", content=[{"type": "image", "source": data}])
        chat.answers(SUMMARY, words("nice"))
        await chat.process.tell(
            chat.process.start_run("run-90").model_copy(update={"messages": [image]}), "image"
        )
        await chat.process.idle()
        chat.answers(SUMMARY, words())
        await chat.process.say("run-91", "and?")
        await chat.process.idle()
        assert chat.world.row("runs", "run-91")["status"] == "completed"
        assert len(chat.compactions) == 2, "before the image, and with it"
        chat.check()


class TestOnDemand:
    @pytest.mark.parametrize(("mode", "left"), [("all", 2), ("sliding_window", 7)])
    async def test_a_client_has_a_conversation_compacted(
        self, chat: Chat, mode: str, left: int
    ) -> None:
        await chat.begin()
        await chat.talk(4, 10)
        reply = await chat.compact(SUMMARY, mode=mode)
        assert isinstance(reply, Accepted)
        assert chat.run()["status"] == "completed"
        [compaction] = chat.compactions
        assert compaction.mode == mode
        summary = compaction.message.summary
        assert summary is not None
        assert (summary.text, summary.structured) == ("They talked about cats.", True)
        assert summary.stats["messages_count_before"] == 9
        assert summary.stats["messages_count_after"] == len(chat.window) == left
        row: Any = chat.world.row("messages", compaction.message.id)
        assert [message_row["message_type"] for message_row in row["v1_messages"]] == [
            "event_message",
            "summary_message",
        ]
        assert [message_row["message_type"] for message_row in row["plain_v1_messages"]] == [
            "user_message"
        ]
        chat.check()
        await chat.say("go on", words())
        assert chat.run()["status"] == "completed"

    async def test_where_nothing_would_be_gained_it_is_refused(self, chat: Chat) -> None:
        await chat.begin()
        refused = await chat.compact()
        assert isinstance(refused, Rejected)
        assert "Nothing was compacted" in refused.reason
        assert chat.world.story() == ["message.appended"]

    async def test_what_is_compacted_already_is_answered_with_its_summary(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(2, 10)
        await chat.compact(SUMMARY)
        before = chat.world.story()
        assert await chat.compact() == Accepted(result={"summary": "They talked about cats."})
        assert chat.world.story() == before

    async def test_it_waits_until_the_active_run_has_ended(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(2, 10)
        asked, let_go = asyncio.Event(), asyncio.Event()

        async def slow() -> ModelReply:
            asked.set()
            await let_go.wait()
            return words("slow answer")

        chat.answers(slow)
        await chat.process.say("run-77", "slowly")
        await asked.wait()
        command = CompactConversation(
            agent_id=AGENT, run=RUN_CONFIG.model_copy(update={"id": "run-78"}), request_hash="h"
        )
        assert isinstance(await chat.process.tell(command, "compact"), Accepted)
        chat.answers(SUMMARY)
        let_go.set()
        await chat.process.idle()
        assert "slow answer" in chat.readable()
        assert [chat.world.row("runs", run_id)["status"] for run_id in ("run-77", "run-78")] == [
            "completed",
            "completed",
        ]
        assert len(chat.window) == 2
        chat.check()

    async def test_it_may_be_cancelled(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(2, 10)
        asked = asyncio.Event()

        async def never() -> ModelReply:
            asked.set()
            await asyncio.Event().wait()
            return words()

        chat.answers(never)
        run = RUN_CONFIG.model_copy(update={"id": "run-78"})
        command = CompactConversation(agent_id=AGENT, run=run, request_hash="h")
        await chat.process.tell(command, "compact")
        await asked.wait()
        await chat.process.tell(CancelRuns(agent_id=AGENT), "cancel")
        await chat.process.idle()
        assert chat.world.row("runs", "run-78")["status"] == "cancelled"
        assert chat.compactions == []
        await chat.say("hi", words())
        assert chat.run()["status"] == "completed"

    async def test_a_process_that_dies_meanwhile_has_changed_nothing(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(2, 10)
        asked = asyncio.Event()

        async def never() -> ModelReply:
            asked.set()
            await asyncio.Event().wait()
            return words()

        chat.answers(never)
        run = RUN_CONFIG.model_copy(update={"id": "run-78"})
        command = CompactConversation(agent_id=AGENT, run=run, request_hash="h")
        await chat.process.tell(command, "compact")
        await asked.wait()
        chat.world.lease_expires()
        chat.process = chat.world.process("p-2", SUMMARY)
        await chat.process.drivers.sweep()
        await chat.process.idle()
        assert len(chat.compactions) == 1
        assert chat.world.row("runs", "run-78")["status"] == "completed"
        chat.check()


class TestSummarisers:
    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (ModelReply("  \n", [], "stop", USAGE), "wrote no summary"),
            (ModelReply("I cannot.", [], "content_filter", USAGE), "refused to write a summary"),
            (
                ModelReply(
                    "",
                    [ToolCall(id="c", name="conversation_search", arguments="{}")],
                    "tool_calls",
                    USAGE,
                ),
                "called a tool instead",
            ),
        ],
    )
    async def test_one_that_says_nothing_is_not_believed(
        self, chat: Chat, answer: ModelReply, why: str
    ) -> None:
        await chat.begin(mode="all")
        await chat.talk(3, 200)
        await chat.compact(answer)
        [compaction] = chat.compactions
        assert (compaction.mode, compaction.model) == ("mechanical", None)
        assert why in compaction.failures[0]
        assert compaction.message.summary is not None
        assert "question 0" in compaction.message.summary.text

    async def test_one_that_never_stops_is_cut_off(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(3, 200)
        await chat.compact(ModelReply("long " * 100_000, [], "stop", USAGE))
        [compaction] = chat.compactions
        assert compaction.message.summary is not None
        assert len(compaction.message.summary.text) < WINDOW
        chat.check()

    async def test_one_with_a_small_window_is_shown_what_fits(self, chat: Chat) -> None:
        await chat.begin(mode="all", window=60_000)
        await chat.talk(12, 1_000)
        too_long = ModelFailed(Failure("context_window_exceeded", "too long"))
        await chat.compact(too_long, too_long, SUMMARY)
        first, second, third = (len(shown(request)) for request in chat.asked[-3:])
        assert first >= second >= third
        assert chat.compactions[0].model == LLM.handle

    async def test_one_that_is_slow_is_not_waited_for(
        self, chat: Chat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction, "SUMMARY_SECONDS_MAX", 0.05)

        async def slow() -> ModelReply:
            await asyncio.Event().wait()
            return SUMMARY

        await chat.begin(mode="all")
        await chat.talk(3, 200)
        await chat.compact(slow)
        [done] = chat.compactions
        assert (done.mode, done.failures) == ("mechanical", ["all: no summary after 0.05 seconds"])
        assert chat.run()["status"] == "completed"

    async def test_one_that_asks_for_tools_and_writes_is_believed(self, chat: Chat) -> None:
        await chat.begin(mode="self_compact_all")
        await chat.talk(3, 100)
        call = ToolCall(id="c", name="conversation_search", arguments="{}")
        await chat.compact(ModelReply("Cats.", [call], "tool_calls", USAGE))
        assert chat.compactions[0].message.summary is not None
        assert chat.compactions[0].message.summary.text == "Cats."
        assert "tool_call.started" not in chat.world.story()

    async def test_one_that_failed_three_times_rests_for_ten_minutes(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        for _ in range(3):
            await chat.talk(2, 100)
            await chat.compact(BROKEN)
        await chat.talk(2, 100)
        asked = len(chat.asked)
        await chat.compact()
        assert len(chat.asked) == asked, "no model was asked"
        assert [event.mode for event in chat.compactions] == ["mechanical"] * 4
        chat.world.clock.seconds += 601
        await chat.talk(2, 100)
        await chat.compact(SUMMARY)
        assert chat.compactions[-1].model == LLM.handle

    async def test_the_settings_are_obeyed(self, chat: Chat) -> None:
        await chat.begin(mode="all", clip_chars=5, prompt_acknowledgement=True)
        await chat.talk(3, 100)
        await chat.compact(SUMMARY)
        prompt, acknowledged, transcript = chat.asked[-1].messages
        assert text_of(prompt) == "Summarise, all."
        assert (acknowledged.role, transcript.role) == ("assistant", "user")
        assert "question 1" in text_of(transcript)
        assert chat.compactions[0].message.summary is not None
        assert chat.compactions[0].message.summary.text == "They "

    async def test_a_second_summary_is_made_of_the_first(self, chat: Chat) -> None:
        await chat.begin(mode="all")
        await chat.talk(2, 100)
        await chat.compact(SUMMARY)
        await chat.talk(2, 100)
        await chat.compact(words("Second."))
        assert "Earlier summary: They talked about cats." in shown(chat.asked[-1])
        assert len(chat.window) == 2
        packed = json.loads(text_of(chat.window[1]))
        assert (packed["type"], "Second." in packed["message"]) == ("system_alert", True)
        chat.check()


class TestAutoclear:
    async def test_each_run_begins_with_the_system_message_alone(self, chat: Chat) -> None:
        await chat.world.start_memory()
        await chat.world.agent(message_buffer_autoclear=True)
        await chat.say("one", words("first"))
        await chat.say("two", words("second"))
        assert [text_of(part) for part in chat.asked[-1].messages][1:] == ["two"]
        assert chat.readable() == ["one", "first", "two", "second"]
        chat.check()


def test_the_reason_is_named_as_the_api_knows_it() -> None:
    assert NOTHING_TO_COMPACT == "nothing_to_compact"
    assert message(1, role="user").summary is None
