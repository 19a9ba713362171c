"""Write summaries: each under a lease, part by part, and save it in the agent's archive.

That a summary is wanted is durable before a model is asked. Each answer of a model is committed
before the next question: where the process dies, a sweeper has the summary go on behind the last
answer. Only the parts' notes are kept in memory, never the history.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from libs.bus.fair_semaphore import FairSemaphore
from libs.bus.ports import BusUnavailable, request_as_service
from libs.contracts.agent.conversations import Message, Usage
from libs.contracts.agent.summaries import SUMMARY_TAG, summary_deltas, summary_passage_id
from libs.contracts.bus_messages import JsonObject, Rejected
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.letta.model_configs import LLMConfig
from libs.contracts.memory.archives import EMBEDDING_SECONDS_MAX, InsertPassages, NewPassage
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.progress import heartbeats, publish_progress
from libs.work.work_lease import HANDLED_BY_ENGINE, WorkLease
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.summary_queries import DueSummary
from services.agent.domain.agents.agent import Agent
from services.agent.domain.agents.model_config_resolution import summariser_config
from services.agent.domain.conversations.provider_rejected_messages import TOO_LONG
from services.agent.domain.prompts.compaction_plan import settings_of, size
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, answer_too_slow, run_too_slow
from services.agent.domain.summaries.agent_summaries import (
    ActiveSummary,
    AgentSummaries,
    SummaryPart,
)
from services.agent.domain.summaries.summary_prompts import part_prompt, summary_prompt
from services.agent.domain.summaries.summary_transcript import (
    HistoryMessage,
    PartLines,
    clip_summary,
    line_chars,
    notes_bytes,
    part_bytes,
    shown_bytes,
    single_text,
    transcript,
)
from services.agent.engine.ports import EnginePorts

log = logging.getLogger(__name__)

SUMMARIES_AT_ONCE_MAX = 8
SUMMARIES_OF_ORG_AT_ONCE_MAX = 4
PAGE_MESSAGES = 64
# How often a model is asked again with half as much, when it says that it was too much.
HALVINGS_MAX = 2
# The finish reason of a model that refuses: what it says then is no summary.
REFUSED = "content_filter"
ENDED: JsonObject = {"end": True}
ARCHIVE_SILENT = "The memory service did not answer: save the text yourself, or ask again later"


class SummaryGone(Exception):
    """There is nothing left to do for a summary."""


@dataclass(frozen=True, slots=True)
class Summariser:
    """The agent as its summary is written: its model, and how much that is shown at a time."""

    config: AgentConfig
    llm: LLMConfig

    @property
    def room(self) -> int:
        """The bytes of messages or notes that the model is shown at a time."""
        return shown_bytes(self.llm.context_window)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.llm.handle or self.llm.model


class SummaryWriter(LeasedWork[DueSummary]):
    """The summaries that this process writes."""

    name = "summary"
    ports: EnginePorts

    def __init__(self, ports: EnginePorts) -> None:
        places = FairSemaphore(
            SUMMARIES_AT_ONCE_MAX,
            of_organisation_max=SUMMARIES_OF_ORG_AT_ONCE_MAX,
            users="summaries",
            thing="place",
        )
        super().__init__(ports, places)

    async def due(self) -> Sequence[DueSummary]:
        """The summaries that nobody writes."""
        return await self.ports.queries.due_summaries(
            SUMMARIES_OF_ORG_AT_ONCE_MAX, SUMMARIES_AT_ONCE_MAX
        )

    async def attempt(self, lease: WorkLease[DueSummary]) -> None:
        """Write a summary, and publish that it has ended."""
        subject = summary_deltas(lease.work.org, lease.work.summary_id)
        async with heartbeats(self.ports.bus, self.ports.clock, subject):
            await self.write_or_fail(lease)
        await publish_progress(self.ports.bus, subject, ENDED)

    async def write_or_fail(self, lease: WorkLease[DueSummary]) -> None:
        """Take a summary to its end, or record why that cannot be done."""
        try:
            await self.write(lease)
        except SummaryGone:
            await self.end_without_agent(lease)
        except ModelFailed as failed:
            await self.fail(lease, failed.failure)
        except HANDLED_BY_ENGINE:
            raise
        except Exception:
            log.exception("%s cannot be written", lease.work.summary_id)
            await self.fail(lease, Failure("internal_error", "An unknown error occurred"))

    async def give_up(self, unit: UnitOfWork, work: DueSummary, reason: str) -> None:
        """Decide that there is no summary, or that the one that was written is not saved."""
        summaries, at = await unit.load(AgentSummaries, work.id), self.ports.clock.now()
        summaries.fail(work.summary_id, Failure("internal_error", reason), at=at)
        summaries.leave_unarchived(work.summary_id, reason, at=at)

    async def write(self, lease: WorkLease[DueSummary]) -> None:
        """Write the text unless it is there, then save it if that is wanted. Raises SummaryGone,
        ModelFailed."""
        active = await self.load(lease)
        if active.text is not None:
            await self.archive(lease, active.text)
            return
        summary_id = active.id
        text, usage, model = await self.text_of(lease, active)
        at = self.ports.clock.now()
        written = await self.decide(
            lease,
            lambda summaries: summaries.write(summary_id, text, model, usage, at=at),
            advances=True,
        )
        if written is not None and written.text is not None:
            await self.archive(lease, written.text)

    async def load(self, lease: WorkLease[DueSummary]) -> ActiveSummary:
        """The summary as of now. Raises SummaryGone."""
        summaries = await lease.unit().load(AgentSummaries, lease.work.id)
        active = summaries.active(lease.work.summary_id)
        if active is None:
            raise SummaryGone(lease.work.summary_id)
        return active.model_copy(deep=True)

    async def decide(
        self,
        lease: WorkLease[DueSummary],
        decision: Callable[[AgentSummaries], None],
        *,
        advances: bool = False,
    ) -> ActiveSummary | None:
        """Record a decision about the summaries of an agent; returns the summary if it is still
        under way then."""

        async def decide(unit: UnitOfWork) -> ActiveSummary | None:
            summaries = await unit.load(AgentSummaries, lease.work.id)
            decision(summaries)
            active = summaries.active(lease.work.summary_id)
            return active.model_copy(deep=True) if active else None

        return await lease.record(decide, release=lambda active: active is None, advances=advances)

    async def fail(self, lease: WorkLease[DueSummary], failure: Failure) -> None:
        """Record that there is no summary, and why."""
        log.warning("no summary of %s: %s", lease.work.agent_id, failure.message)
        at = self.ports.clock.now()
        await self.decide(
            lease, lambda summaries: summaries.fail(lease.work.summary_id, failure, at=at)
        )

    async def end_without_agent(self, lease: WorkLease[DueSummary]) -> None:
        """Remove the summaries of an agent that is gone; otherwise nothing is left to do."""

        async def decide(unit: UnitOfWork) -> None:
            agent = await unit.load(Agent, lease.work.agent_id)
            summaries = await unit.load(AgentSummaries, lease.work.id)
            if agent.design is None:
                summaries.delete(at=self.ports.clock.now())

        if not lease.is_released:
            await lease.record(decide)

    async def text_of(
        self, lease: WorkLease[DueSummary], active: ActiveSummary
    ) -> tuple[str, Usage, str | None]:
        """The text of a summary, the tokens that all its questions used, and the model; None for a
        single message that needs none. Raises SummaryGone, ModelFailed."""
        summariser = await self.summariser_of(lease)
        self.refuse_if_late(active)
        if not active.levels:
            part, text = await self.read_part(lease, active, summariser)
            if active.messages.count == 1 and text is not None:
                return text, active.usage, None
            if part.last >= active.messages.last:
                prompt = summary_prompt(
                    active.summary_length, active.messages.count, of_notes=False
                )
                written, usage = await self.ask(summariser, prompt, part.lines)
                return clip_summary(written), active.usage.plus(usage), summariser.model
        while active.covered_at(0) < active.messages.last:
            active = await self.write_part(lease, active, summariser)
        level = max(0, len(active.levels) - 1)
        while size(active.parts(level)) > summariser.room:
            while active.covered_at(level + 1) < len(active.parts(level)):
                active = await self.merge_parts(lease, active, summariser, level)
            level += 1
        prompt = summary_prompt(active.summary_length, active.messages.count, of_notes=True)
        written, usage = await self.ask(summariser, prompt, active.parts(level))
        return clip_summary(written), active.usage.plus(usage), summariser.model

    async def summariser_of(self, lease: WorkLease[DueSummary]) -> Summariser:
        """The model that summarises for an agent: the one that its compaction settings name, or its
        own where that is not to be had. Raises SummaryGone."""
        agent = await lease.unit().load(Agent, lease.work.agent_id)
        if agent.design is None:
            raise SummaryGone(lease.work.summary_id)
        config = agent.design.config
        own, settings = config.llm_config, settings_of(config)
        if settings.model and settings.model != own.handle:
            named = await self.ports.models.llm(settings.model)
            own = own if isinstance(named, Rejected) else named
        return Summariser(config, summariser_config(own, settings))

    def refuse_if_late(self, active: ActiveSummary) -> None:
        """Raise ModelFailed for a summary that takes longer than a run may."""
        most = self.ports.deadlines.run_seconds_max
        if self.ports.clock.now() > active.requested_at + timedelta(seconds=most):
            raise ModelFailed(run_too_slow("The summary", most))

    async def read_part(
        self, lease: WorkLease[DueSummary], active: ActiveSummary, summariser: Summariser
    ) -> tuple[PartLines, str | None]:
        """The next messages that no part covers, as many as go into one; and the first of them as
        its own summary, where it is short enough for that."""
        part, single = PartLines(last=active.covered_at(0)), None
        most, chars = part_bytes(active.messages, summariser.room), line_chars(summariser.room)
        while True:
            page: list[HistoryMessage] = await self.ports.queries.history_page(
                lease.work.org, active.messages, part.last, PAGE_MESSAGES
            )
            for message in page:
                if not part.lines:
                    single = single_text(message)
                part.add(message, chars)
                if part.bytes >= most:
                    return part, single
            if len(page) < PAGE_MESSAGES:
                part.last = active.messages.last
                return part, single

    async def write_part(
        self, lease: WorkLease[DueSummary], active: ActiveSummary, summariser: Summariser
    ) -> ActiveSummary:
        """Have notes written on the next messages, and record them."""
        part, _ = await self.read_part(lease, active, summariser)
        lines = part.lines or ["[these messages were deleted]"]
        text, usage = await self.ask(summariser, part_prompt(of_notes=False), lines)
        return await self.keep_part(lease, summariser, SummaryPart(0, part.last, text, usage))

    async def merge_parts(
        self,
        lease: WorkLease[DueSummary],
        active: ActiveSummary,
        summariser: Summariser,
        level: int,
    ) -> ActiveSummary:
        """Have the next notes of a level merged, as many as a model is shown, and record that."""
        begin = end = active.covered_at(level + 1)
        parts = active.parts(level)
        while end < len(parts) and (
            end < begin + 2 or size(parts[begin : end + 1]) <= summariser.room
        ):
            end += 1
        text, usage = await self.ask(summariser, part_prompt(of_notes=True), parts[begin:end])
        return await self.keep_part(lease, summariser, SummaryPart(level + 1, end, text, usage))

    async def keep_part(
        self, lease: WorkLease[DueSummary], summariser: Summariser, part: SummaryPart
    ) -> ActiveSummary:
        """Record a part, shortened to what is kept of one. Raises SummaryGone, ModelFailed."""
        short = clip_summary(part.text, notes_bytes(summariser.room))
        kept, at = replace(part, text=short), self.ports.clock.now()
        active = await self.decide(
            lease,
            lambda summaries: summaries.write_part(lease.work.summary_id, kept, at=at),
            advances=True,
        )
        if active is None:
            raise SummaryGone(lease.work.summary_id)
        self.refuse_if_late(active)
        return active

    async def ask(
        self, summariser: Summariser, prompt: str, lines: Sequence[str]
    ) -> tuple[str, Usage]:
        """A model's text about these lines, within the deadline of a step. If it answers that they
        are too long, it is asked again with half. Raises ModelFailed."""
        shown = summariser.room - len(prompt.encode())
        for halvings in range(HALVINGS_MAX + 1):
            request = self.request(summariser, prompt, transcript(lines, shown >> halvings))
            try:
                async with asyncio.timeout(self.ports.deadlines.step_seconds_max):
                    reply = await self.ports.models.reply(request)
            except TimeoutError:
                late = answer_too_slow(summariser.model, self.ports.deadlines.step_seconds_max)
                raise ModelFailed(late) from None
            except ModelFailed as failed:
                if failed.failure.error_type != TOO_LONG or halvings == HALVINGS_MAX:
                    raise
                continue
            if reply.text.strip() and reply.finish_reason != REFUSED:
                return reply.text, reply.usage
            why = "refused to write one" if reply.finish_reason == REFUSED else "wrote none"
            message = f"There is no summary: {summariser.model} {why}"
            raise ModelFailed(Failure("llm_empty_response", message))
        raise AssertionError("the last try returns or raises")

    def request(self, summariser: Summariser, prompt: str, shown: str) -> ModelRequest:
        """A question to a model: what it is to do, and what it is shown."""
        at = self.ports.clock.now()
        config = summariser.config.model_copy(update={"llm_config": summariser.llm})
        messages = [
            Message(id="", role="system", content=prompt, created_at=at),
            Message(id="", role="user", content=shown, created_at=at),
        ]
        return ModelRequest(config, messages, tools=[], parallel=False)

    async def archive(self, lease: WorkLease[DueSummary], text: str) -> None:
        """Save a summary as a passage of the agent's archive: once, since its id follows from the
        summary's. Where that fails, the summary says why."""
        summary_id = lease.work.summary_id
        passage_id = summary_passage_id(summary_id)
        passage = NewPassage(
            id=passage_id,
            text=text.replace("\x00", ""),
            tags=[SUMMARY_TAG],
            metadata={"summary_id": summary_id},
        )
        command = InsertPassages(passages=[passage], agent_id=lease.work.agent_id)
        reason = ""
        try:
            reply = await request_as_service(
                self.ports.bus,
                command,
                lease.context.follow_up(passage_id),
                seconds_max=EMBEDDING_SECONDS_MAX,
            )
            reason = reply.reason if isinstance(reply, Rejected) else ""
        except BusUnavailable:
            reason = ARCHIVE_SILENT
        at = self.ports.clock.now()
        await self.decide(
            lease,
            lambda summaries: (
                summaries.leave_unarchived(summary_id, reason, at=at)
                if reason
                else summaries.archive(summary_id, passage_id, at=at)
            ),
        )
