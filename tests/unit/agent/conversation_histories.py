"""A conversation under random commands and crashes: what must hold after each of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from libs.contracts.agent.approvals import (
    AnswerApproval,
    ApprovalAnswered,
    CallAnswer,
    arguments_hash,
)
from libs.contracts.agent.compaction import (
    CompactConversation,
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
)
from libs.contracts.agent.conversations import (
    Message,
    MessageAppended,
    ReasoningPart,
    SystemPromptRebuilt,
    ToolCall,
    Usage,
)
from libs.contracts.agent.runs import (
    CallingRun,
    CancelRuns,
    ClientTool,
    QueuedRunsCancelled,
    RunAccepted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunOptions,
    RunStarted,
    StartRun,
)
from libs.contracts.agent.steps import ModelReplied, ToolCallsStarted, ToolCallStarted
from libs.contracts.agent.stored_to_letta_messages import assistant_parts
from libs.contracts.agent.stream_chunks import OPENING_NUMBER
from libs.contracts.bus_messages import DEFAULT_ORG, PENDING_APPROVAL, Event, JsonObject, Rejected
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.messages import Envelope
from libs.contracts.letta.model_configs import CompactionSettings
from libs.eventstore.event_decoding import event_of, replay
from libs.eventstore.ports import History, StoredEvent
from libs.eventstore.unit_of_work import snapshot_of
from services.agent.domain.conversations.active_run import CONCURRENT_CALLS_MAX, served_parts
from services.agent.domain.conversations.approval_state import CallGates, gates
from services.agent.domain.conversations.callback_attempts import CallbackOutcome, record_attempt
from services.agent.domain.conversations.configuration_overrides import with_own_system
from services.agent.domain.conversations.context_replacement import (
    cannot_replace,
    replace_context,
    wanted_messages,
)
from services.agent.domain.conversations.context_window_cache import pair_calls
from services.agent.domain.conversations.conversation import (
    Conversation,
    SystemPrompt,
)
from services.agent.domain.conversations.conversation_lifecycle import create, forked_messages
from services.agent.domain.conversations.window_length import WindowLength
from services.agent.domain.prompts.compaction_plan import Budget, plan_of
from services.agent.domain.prompts.model_context import shown_messages
from services.agent.domain.runs.agent_loop import OfferedTools, rules_of
from services.agent.domain.runs.agent_loops import LETTA_V1_LOOP, loop_of
from services.agent.domain.runs.approval_resolution import answer, expire
from services.agent.domain.runs.compaction import Compaction, WrittenSummary, clear, compact
from services.agent.domain.runs.run_actions import (
    AskModel,
    Compact,
    EndRun,
    RefuseCall,
    RunTools,
    StartTools,
)
from services.agent.domain.runs.run_progress import go_on, next_action
from services.agent.domain.runs.run_requests import (
    Terms,
    accept,
    accept_compaction,
    cancel,
    resume_after_pause,
)
from services.agent.domain.runs.run_steps import (
    fail,
    model_replied,
    refuse_call,
    tool_interrupted,
    tool_returned,
)
from services.agent.domain.runs.step_results import (
    AnsweredStep,
    Failure,
    ModelReply,
    Spoken,
    ToolResult,
    kept_calls,
    spoken_message,
)
from services.agent.domain.tools.tool_rules import rules_in_force
from services.agent.engine.stream_chunk_building import StepChunks
from tests.contract.examples import (
    AGENT,
    CONVERSATION,
    CONVERSATION_CONFIG,
    LLM,
    RUN_CONFIG,
    SYSTEM,
)
from tests.scripted_model import messages_validator, messages_wire, validator
from tests.topic_counts import told_by
from tests.unit.agent import openai_documents
from tests.unit.agent.anthropic_documents import body_of
from tests.unit.agent.asking import ask
from tests.unit.given import NOW

TOOLS = ("look", "send_message", "keep")


BROWSE = "browse"  # a tool that the client may bring


NEEDS_APPROVAL: JsonObject = {"type": "requires_approval", "tool_name": "keep"}


ARGUMENTS = ("{}", '{"message": "Hi", "request_heartbeat": true, "thinking": "Hm"}', '{"message": ')


TOOL_RULES: list[JsonObject] = [
    {"type": "run_first", "tool_name": "look", "args": {"message": "given"}},
    {"type": "exit_loop", "tool_name": "send_message"},
    {"type": "continue_loop", "tool_name": "keep"},
    {"type": "constrain_child_tools", "tool_name": "look", "children": ["keep"]},
    {"type": "parent_last_tool", "tool_name": "look", "children": ["send_message"]},
    {"type": "conditional", "tool_name": "look", "child_output_mapping": {"done": "keep"}},
    {"type": "max_count_per_step", "tool_name": "keep", "max_count_limit": 1},
    {"type": "required_before_exit", "tool_name": "keep"},
]


CLAUDE = {"model": "claude-sonnet-4-5", "max_reasoning_tokens": 1024}


THOUGHT = ReasoningPart(text="Well.", signature=messages_wire.signature("Well."))


# What brings a message that models are shown.
SHOWING = (MessageAppended, ConversationCompacted)


OPTIONS = (
    None,
    None,
    RunOptions(system="Be somebody else."),
    RunOptions(model="demo/other", llm_config=LLM.model_copy(update={"handle": "demo/other"})),
)


OF_CUSTOM_TOOLS = (
    ToolResult("success", "4", stdout=["rolling\n"], stderr=[]),
    ToolResult("error", "Error executing function keep: ValueError", stdout=[], stderr=["at 1"]),
    ToolResult("error", "'keep' is not allowed for this agent.", forbidden=True),
)


CALLERS = [CallingRun(agent_id="agent-2", conversation_id="conv-2", run_id="run-2", waits=True)]


CALLBACK = "https://example.com/told"


# What happened in all histories of this process: see `python -m tests.histories`.
HAPPENED: Counter[str] = Counter()


STEPS = 30


FORKS_MAX = 2


class Histories(RuleBasedStateMachine):
    """A conversation, driven as the driver does it, over a store that is a list of JSON texts."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[StoredEvent] = []
        self.events: list[Event] = []
        self.talk = Conversation.blank(CONVERSATION)
        self.count = 0
        self.repeat: Any = None
        # The other conversations: each goes on by itself.
        self.others: list[tuple[Conversation, list[StoredEvent], list[Event]]] = []
        self.answers: AnswerApproval | None = None

    # What happens

    @initialize()
    def begin(self) -> None:
        self.talk.begin(AGENT, SYSTEM, {}, at=NOW)
        self.commit()

    @rule(
        messages=st.integers(1, 2),
        max_steps=st.integers(1, 4),
        agent_type=st.sampled_from([AgentType.letta_v1_agent, AgentType.memgpt_agent]),
        tool_rules=st.lists(st.sampled_from(TOOL_RULES), max_size=3),
        gated=st.sampled_from([[], [], [NEEDS_APPROVAL]]),
        brings_tool=st.booleans(),
        called=st.booleans(),
        options=st.sampled_from(OPTIONS),
        calls_back=st.booleans(),
    )
    def accept(
        self,
        messages: int,
        max_steps: int,
        agent_type: AgentType,
        tool_rules: list[JsonObject],
        gated: list[JsonObject],
        brings_tool: bool,
        called: bool,
        options: RunOptions | None,
        calls_back: bool,
    ) -> None:
        said = [self.message(role="user", content="Hi") for _ in range(messages)]
        asked = self.request(said, max_steps=max_steps)
        if calls_back:
            run = asked.run.model_copy(update={"callback_url": CALLBACK})
            asked = asked.model_copy(update={"run": run})
        if options is not None:
            HAPPENED["runs with options"] += 1
            asked = asked.model_copy(update={"options": options})
        if brings_tool:
            asked = asked.model_copy(update={"client_tools": [ClientTool(name=BROWSE)]})
        elif called:  # by another agent, which speaks as the system
            HAPPENED["runs that agents called"] += 1
            said = [self.message(role="system", content="Hi", sender_id="agent-2")]
            asked = asked.model_copy(update={"messages": said, "callers": CALLERS})
        rules = rules_in_force([*tool_rules, *gated], TOOLS)
        moments = {"asked_at": self.now(), "at": self.now()}
        refused = accept(self.talk, asked, Terms(agent_type, rules, options=options), **moments)
        assert (refused is not None) == (self.talk.state.approval is not None)
        assert bool(self.commit()) == (refused is None), "what is refused has no effect"

    def request(self, said: list[Message], *, max_steps: int) -> StartRun:
        """What starts a run."""
        run = RUN_CONFIG.model_copy(update={"id": f"run-{self.fresh()}", "created_at": self.now()})
        return StartRun(
            agent_id=AGENT, run=run, messages=said, max_steps=max_steps, request_hash="h"
        )

    @precondition(
        lambda self: self.talk.state.active_run is None and self.talk.state.approval is None
    )
    @rule(
        tools=st.lists(st.sampled_from(["look", "keep", BROWSE]), min_size=1, max_size=4),
        concurrent=st.booleans(),
        fresh_ids=st.booleans(),
    )
    def a_run_asks_its_client(self, tools: list[str], concurrent: bool, fresh_ids: bool) -> None:
        """What rarely comes of other rules alone: a step with calls that wait, and others."""
        asked = self.request([self.message(role="user", content="Hi")], max_steps=4)
        command = asked.model_copy(update={"client_tools": [ClientTool(name=BROWSE)]})
        rules = rules_in_force([NEEDS_APPROVAL], TOOLS)
        kind, moments = AgentType.letta_v1_agent, {"asked_at": self.now(), "at": self.now()}
        assert accept(self.talk, command, Terms(kind, rules), **moments) is None
        self.commit()
        action = next_action(self.talk.state)
        assert isinstance(action, AskModel)
        prefix = f"call_{self.fresh()}_" if fresh_ids else "call_"
        calls = [
            ToolCall(id=f"{prefix}{n}", name=name, arguments="{}") for n, name in enumerate(tools)
        ]
        reply = ModelReply("", calls, "tool_calls", Usage(prompt_tokens=5))
        spoken = Spoken(f"message-{self.fresh()}", self.now())
        self.decide(
            lambda talk: model_replied(
                talk,
                AnsweredStep(
                    action.step_id,
                    "demo",
                    reply,
                    spoken=spoken,
                    parallel=True,
                    concurrent=["look", "keep"] if concurrent else [],
                    rebuilt=None,
                ),
                at=self.now(),
            )
        )
        gated = bool({*tools} & {"keep", BROWSE})
        assert (self.talk.state.approval is not None) == gated
        self.repeat = None

    @precondition(lambda self: self.talk.state.approval is not None)
    @rule(
        kinds=st.lists(st.sampled_from(["approved", "denied", "returned"]), min_size=1),
        first=st.integers(0, 3),
        messages=st.integers(0, 2),
        foreign=st.booleans(),
        lost=st.booleans(),
    )
    def client_answers(
        self, kinds: list[Any], first: int, messages: int, foreign: bool, lost: bool
    ) -> None:
        """Some of the calls or all, in any order, and maybe one that never was."""
        approval = self.talk.state.approval
        assert approval is not None
        waiting = approval.waiting[first:] or approval.waiting
        answers = [
            CallAnswer(tool_call_id=call_id, kind=kind, content=None if kind != "returned" else "x")
            for call_id, kind in zip(waiting, kinds, strict=False)
        ]
        answers += [CallAnswer(tool_call_id="call_of_nobody", kind="approved")] * foreign
        said = [self.message(role="user", content="Also") for _ in range(messages)]
        command = AnswerApproval(**dict(self.request(said, max_steps=3)), answers=answers)
        moments = {"asked_at": self.now(), "at": self.now()}

        def take(talk: Conversation) -> Any:
            return answer(talk, command, Terms(AgentType.letta_v1_agent, []), **moments)

        partly = len(answers) < len(approval.waiting)
        theirs = [
            call_answer.tool_call_id for call_answer in answers if call_answer.kind == "approved"
        ]
        wrong = foreign or bool(set(theirs) & set(approval.by_client)) or (partly and bool(said))
        if wrong:
            assert isinstance(take(self.talk), Rejected)
            assert self.commit() == 0
        else:
            self.decide(take, lost=lost)
            # That a request with messages is handled once is the inbox's business.
            self.repeat = None if said else take
            self.answers = command

    @precondition(lambda self: self.answers is not None)
    @rule()
    def client_answers_again(self) -> None:
        """The same answer in another request: its run is meant, and nothing happens again; where
        that run was cancelled, a run may begin that goes on behind the results."""
        assert self.answers is not None
        again = {"run": self.request([], max_steps=3).run, "messages": []}
        command = self.answers.model_copy(update=again)
        moments = {"asked_at": self.now(), "at": self.now()}
        known = {call_answer.tool_call_id for call_answer in self.answers.answers}
        answered = [
            call_answer
            for call_answer in self.talk.state.answered
            if call_answer.tool_call_id in known
        ]
        outcome = answer(self.talk, command, Terms(AgentType.letta_v1_agent, []), **moments)
        happened = self.commit()
        if happened:
            assert answered[-1].run_cancelled
            assert self.talk.state.active_run is not None
            self.repeat = None
        assert isinstance(outcome, Rejected) or outcome.startswith("run-")

    @precondition(lambda self: self.talk.state.approval is not None)
    @rule(lost=st.booleans())
    def approval_expires(self, lost: bool) -> None:
        approval = self.talk.state.approval
        assert approval is not None
        asked = approval.requested_at
        self.decide(lambda talk: expire(talk, requested_at=asked, at=self.now()), lost=lost)
        assert self.talk.state.approval is None

    @precondition(lambda self: self.asks())
    @rule(
        calls=st.sampled_from([0, 1, 2, 3, CONCURRENT_CALLS_MAX + 2]),
        text=st.sampled_from(["", "So."]),
        parallel=st.booleans(),
        fresh_ids=st.booleans(),
        rebuilds=st.booleans(),
        finish=st.sampled_from(["stop", "length", "tool_calls"]),
        thinks=st.booleans(),
        in_pieces=st.booleans(),
        jump=st.integers(1, 1_000),
        lost=st.booleans(),
        tool=st.sampled_from([*TOOLS, BROWSE]),
        other=st.sampled_from([*TOOLS, BROWSE]),
        arguments=st.sampled_from(ARGUMENTS),
        concurrent=st.booleans(),
    )
    def model_replies(
        self,
        calls: int,
        text: str,
        parallel: bool,
        fresh_ids: bool,
        rebuilds: bool,
        finish: str,
        thinks: bool,
        in_pieces: bool,
        jump: int,
        lost: bool,
        tool: str,
        other: str,
        arguments: str,
        concurrent: bool,
    ) -> None:
        """In all tools that rules leave, or in one that they do not."""
        action = next_action(self.talk.state)
        assert isinstance(action, AskModel)
        run = self.talk.running()
        theirs = run.gate.by_client if run.gate else set()
        tools = {*TOOLS, *theirs}
        loop, allowed = loop_of(run.agent_type), rules_of(run).allowed_tools(tools)
        names = sorted(allowed) if len(allowed) < len(tools) else None
        parallel = parallel and loop is LETTA_V1_LOOP
        offered = OfferedTools([], parallel, names)
        prefix = f"call_{self.fresh()}_" if fresh_ids else "call_"
        asked = [
            ToolCall(id=f"{prefix}{n}", name=other if n == 1 else tool, arguments=arguments)
            for n in range(calls)
        ]
        spent = Usage(prompt_tokens=5, completion_tokens=1)
        thoughts = [THOUGHT] if thinks else []
        reply = ModelReply(text, asked, finish, spent, reasoning_parts=thoughts)
        reply = loop.interpret(reply, run, offered)
        held = gates(run.gate, self.talk.state.answered, action.step_id, names)
        spoken = self.spoken(reply, held, parallel=parallel, in_pieces=in_pieces, jump=jump)
        prompt = SystemPrompt(content=f"Be {self.count}.", shows={}) if rebuilds else None
        self.decide(
            lambda talk: model_replied(
                talk,
                AnsweredStep(
                    action.step_id,
                    "demo",
                    reply,
                    spoken=spoken,
                    parallel=parallel,
                    offered=offered.names,
                    concurrent=[tool] if concurrent else [],
                    rebuilt=prompt,
                ),
                at=self.now(),
            ),
            lost=lost,
        )

    @precondition(lambda self: self.asks() or self.compacts())
    @rule(
        way=st.sampled_from(["sliding_window", "all", "mechanical"]),
        goal=st.integers(0, 2_000),
        share=st.floats(0, 1),
        structured=st.booleans(),
        lost=st.booleans(),
    )
    def window_is_compacted(
        self, way: Any, goal: int, share: float, structured: bool, lost: bool
    ) -> None:
        """To any length, before a step or because a client asked for it."""
        state, active = self.talk.state, self.talk.running()
        settings = CompactionSettings(sliding_window_percentage=share)
        budget = Budget(window=2 * goal + 1, fixed=0, whole=99, goal=goal, bytes_per_token=4.0)
        plan = plan_of(state, way, settings, budget)
        if plan is None:
            return
        evicted = [message.id for message in state.window[1 : plan.kept_from]]
        done = Compaction(
            step_id=active.next_step_id,
            trigger="manual",
            plan=plan,
            budget=budget,
            evicted=evicted,
            summary=WrittenSummary("So far." * 9, model="demo" if structured else None),
            rebuilt=SystemPrompt(content="Be short.", shows={}),
            timezone="UTC",
            context_window=1_000,
        )
        message_id, number = f"message-{self.fresh()}", active.last_number + 1

        def decision(talk: Conversation) -> None:
            if compact(talk, done, message_id=message_id, number=number, at=self.now()):
                talk.rebuild(done.rebuilt, at=self.now())
                go_on(talk, at=self.now())

        self.decide(decision, lost=lost)

    @rule(mode=st.sampled_from(["all", "sliding_window"]))
    def client_asks_for_a_compaction(self, mode: str) -> None:
        run = RUN_CONFIG.model_copy(update={"id": f"run-{self.fresh()}", "created_at": self.now()})
        asked = CompactConversation(
            agent_id=AGENT, run=run, request_hash="h", settings={"mode": mode}
        )
        moments = {"asked_at": self.now(), "at": self.now()}
        if accept_compaction(self.talk, asked, **moments) is None:
            self.commit()

    @precondition(lambda self: self.talk.state.active_run is None)
    @rule()
    def window_is_cleared(self) -> None:
        clear(self.talk, at=self.now())
        self.commit()

    @rule(taken=st.lists(st.booleans(), max_size=12))
    def context_is_replaced(self, taken: list[bool]) -> None:
        """By some of all messages that there ever were, or by none where it may not be now."""
        recorded = self.recorded()
        picked = [*taken, *[True] * len(recorded)]
        names = [message.id for message, take in zip(recorded, picked, strict=False) if take]
        if cannot_replace(self.talk.state, names) is not None:
            return
        there = [message for message in recorded if message.id in set(names)]
        wanted = wanted_messages(self.talk, names, there)
        assert isinstance(wanted, list)
        assert replace_context(self.talk, wanted, restored_from="", at=self.now()) is None
        HAPPENED["contexts replaced"] += 1
        self.commit()

    def recorded(self) -> list[Message]:
        """All messages that models were ever shown, in the order in which they were recorded."""
        appended = [e.message for e in self.events if isinstance(e, SHOWING)]
        return [message for message in appended if message.role != "approval"]

    @precondition(lambda self: self.asks())
    @rule(
        kind=st.sampled_from(["llm_timeout", "llm_bad_request", "context_window_exceeded"]),
        lost=st.booleans(),
    )
    def model_fails(self, kind: str, lost: bool) -> None:
        action = next_action(self.talk.state)
        assert isinstance(action, AskModel)
        failure = Failure(kind, "no")
        self.decide(lambda talk: fail(talk, action.step_id, failure, at=self.now()), lost=lost)

    @precondition(lambda self: self.goes_on())
    @rule(lost=st.booleans())
    def engine_goes_on(self, lost: bool) -> None:
        """From where an answer left the run."""
        self.decide(lambda talk: go_on(talk, at=self.now()), lost=lost)

    @precondition(lambda self: self.runs_tool())
    @rule(
        status=st.sampled_from(["success", "error"]),
        which=st.integers(0, 9),
        minutes=st.sampled_from([None, None, None, 1, 60]),
        ran=st.sampled_from([ToolResult("success", ""), *OF_CUSTOM_TOOLS]),
        lost=st.booleans(),
    )
    def tool_returns(
        self, status: Any, which: int, minutes: int | None, ran: ToolResult, lost: bool
    ) -> None:
        """One of those that run, in any order; it may ask for a pause, have printed something, or
        not have been allowed."""
        action = next_action(self.talk.state)
        assert isinstance(action, RunTools)
        call = action.calls[which % len(action.calls)]
        message_id = f"message-{self.fresh()}"
        result = ToolResult(status, "done", pause_minutes=minutes)
        if ran in OF_CUSTOM_TOOLS:
            HAPPENED["calls of custom tools"] += 1
            result = ran
        self.decide(
            lambda talk: tool_returned(
                talk, action.step_id, call, result, message_id=message_id, at=self.now()
            ),
            lost=lost,
        )

    @precondition(lambda self: self.runs_tool())
    @rule(which=st.integers(0, 9), lost=st.booleans())
    def tool_is_interrupted(self, which: int, lost: bool) -> None:
        action = next_action(self.talk.state)
        assert isinstance(action, RunTools)
        call = action.calls[which % len(action.calls)]
        message_id = f"message-{self.fresh()}"
        self.decide(
            lambda talk: tool_interrupted(
                talk, action.step_id, call, message_id=message_id, at=self.now()
            ),
            lost=lost,
        )

    @precondition(lambda self: isinstance(next_action(self.talk.state), RefuseCall))
    @rule(lost=st.booleans())
    def call_is_refused(self, lost: bool) -> None:
        action = next_action(self.talk.state)
        assert isinstance(action, RefuseCall)
        message_id = f"message-{self.fresh()}"
        self.decide(
            lambda talk: refuse_call(
                talk, action.call, action.why, message_id=message_id, at=self.now()
            ),
            lost=lost,
        )

    @precondition(lambda self: self.talk.state.active_run or self.talk.state.approval)
    @rule(named=st.booleans(), which=st.integers(0, 9), lost=st.booleans())
    def user_cancels(self, named: bool, which: int, lost: bool) -> None:
        """All that have not ended, or one of them: the running one or one that waits."""
        talk = self.talk.state
        first = [talk.active_run.run.id] if talk.active_run else []
        asking = [talk.approval.run_id] if talk.approval else []
        unended = [*first, *asking, *(queued.run.id for queued in talk.queue)]
        asked = [unended[which % len(unended)]] if named else None
        command = CancelRuns(agent_id=AGENT, run_ids=asked)
        fresh = [f"message-{self.fresh()}" for _ in range(CONCURRENT_CALLS_MAX + 2)]

        def ask(talk: Conversation) -> None:
            cancel(talk, command, message_ids=fresh, at=self.now())

        self.decide(ask, lost=lost)
        self.repeat = None if asked is None else ask
        assert not set(asked or unended) & set(self.unended())
        left = self.talk.state.approval
        assert left is None or left.run_id not in (asked or unended)

    @precondition(lambda self: len(self.others) < FORKS_MAX)
    @rule(which=st.integers(0, 20), whole=st.booleans())
    def fork(self, which: int, whole: bool) -> None:
        """At its end or at a message, wherever its run stands; the fork is looked at next."""
        window = self.talk.state.window
        until = None if whole or len(window) < 2 else window[1 + which % (len(window) - 1)].id
        fork_id = f"conv-{self.fresh()}"
        before = self.talk.state.model_dump_json()
        messages = forked_messages(self.talk.state, fork_id, until)
        assert isinstance(messages, list)
        assert pair_calls(messages) == messages, "a fork has whole steps"
        self.others.append((self.talk, self.stored, self.events))
        self.talk, self.stored, self.events = Conversation.blank(fork_id), [], []
        config = CONVERSATION_CONFIG.model_copy(update={"id": fork_id})
        assert create(self.talk, config) is None
        system = self.message(role="system", content="Be a fork.")
        self.talk.begin(AGENT, system, {}, at=self.now())
        for message in messages:
            self.talk.append(message, at=self.now())
        self.commit()
        self.repeat = self.answers = None
        assert self.others[-1][0].state.model_dump_json() == before, "its source is as it was"

    @precondition(lambda self: self.others)
    @rule()
    def another_conversation_goes_on(self) -> None:
        self.others.append((self.talk, self.stored, self.events))
        self.talk, self.stored, self.events = self.others.pop(0)
        self.repeat = self.answers = None

    @precondition(lambda self: self.others)
    @rule()
    def the_conversation_is_deleted(self) -> None:
        """Whatever waits there is gone with it; the others go on."""
        self.talk.delete(at=self.now())
        self.commit()
        assert self.replayed(History(None, self.stored)).deleted
        self.told()
        self.talk, self.stored, self.events = self.others.pop(0)
        self.repeat = self.answers = None

    @precondition(lambda self: self.ended())
    @rule(status=st.sampled_from([200, 500, None]), which=st.integers(0, 9), lost=st.booleans())
    def client_is_called_back(self, status: int | None, which: int, lost: bool) -> None:
        """That the run ended, at any time later; it changes nothing that a model is shown."""
        ended, before = self.ended(), self.talk.state.window
        outcome = CallbackOutcome(status, None if status else "refused")
        when = {"attempts": 1, "sent_at": self.now(), "at": self.now()}
        run_id = ended[which % len(ended)]
        self.decide(lambda talk: record_attempt(talk, run_id, outcome, **when), lost=lost)
        self.repeat = None
        assert self.talk.state.window == before

    @precondition(lambda self: self.talk.state.pause is not None)
    @rule(lost=st.booleans())
    def the_pause_is_over(self, lost: bool) -> None:
        pause = self.talk.state.pause
        assert pause is not None
        ids = {"run_id": f"run-{self.fresh()}", "message_id": f"message-{self.fresh()}"}
        how = {**ids, "terms": Terms(AgentType.memgpt_agent, []), "at": self.now()}
        if self.talk.state.approval is not None:
            refused = resume_after_pause(self.talk, pause.until, **how)
            assert refused is not None
            assert refused.code == PENDING_APPROVAL
            assert not self.commit(), "it is tried again when the client has answered"
            return
        self.decide(lambda talk: resume_after_pause(talk, pause.until, **how), lost=lost)
        assert self.talk.state.pause is None
        assert ids["run_id"] in self.unended()

    @precondition(lambda self: self.talk.state.pause is not None)
    @rule()
    def the_pause_is_cancelled(self) -> None:
        fresh = [f"message-{self.fresh()}" for _ in range(CONCURRENT_CALLS_MAX + 2)]
        command = CancelRuns(agent_id=AGENT)
        self.decide(lambda talk: cancel(talk, command, message_ids=fresh, at=self.now()))
        self.repeat = None
        assert self.talk.state.pause is None
        assert not self.unended()

    @precondition(lambda self: self.repeat is not None)
    @rule()
    def the_last_fact_is_reported_again(self) -> None:
        self.repeat(self.talk)
        assert self.talk.take_new_events() == []

    @rule(part=st.floats(0, 1))
    def crash_and_reload(self, part: float) -> None:
        """From the events, or from a snapshot at any version and what came after it."""
        HAPPENED["crashes"] += 1
        version = round(part * len(self.stored))
        snapshot = None
        if version:
            earlier = self.replayed(History(None, self.stored[:version]))
            taken = snapshot_of(earlier, DEFAULT_ORG)
            state = json.loads(json.dumps(taken.state))
            snapshot = replace(taken, state=state)
        before = self.talk
        self.talk = self.replayed(History(snapshot, self.stored[version:]))
        assert self.talk.state == before.state
        assert self.talk.version == before.version

    # What holds

    @invariant()
    def the_model_can_always_be_asked(self) -> None:
        window = self.talk.state.window
        if not window:
            return
        turn = self.talk.state.active_run
        seen = shown_messages(self.talk.state, None)
        for shown in (pair_calls(window), with_own_system(seen, turn) if turn else seen):
            HAPPENED["contexts checked"] += 2
            assert validator.check(openai_documents.body_of(ask(*shown))) is None
            assert messages_validator.check(body_of(ask(*shown, **CLAUDE))) is None
        approval = self.talk.state.approval
        if approval is not None:
            assert window[-1].id == approval.message_id, "nothing follows calls that wait"
            assert self.talk.state.active_run is None
        elif self.talk.state.active_run is None or self.asks():
            assert pair_calls(window) == window, "nothing that is recorded is unpaired"

    @invariant()
    def so_many_tools_run_at_once_as_may_and_one_alone_that_may_not_beside_others(self) -> None:
        turn = self.talk.state.active_run
        started = [call for call in turn.calls if call.state == "started"] if turn else []
        assert len(started) <= CONCURRENT_CALLS_MAX
        assert len(started) <= 1 or all(call.concurrent for call in started)

    @invariant()
    def a_run_that_asked_for_a_pause_asks_the_model_nothing_more(self) -> None:
        turn = self.talk.state.active_run
        assert not (turn and turn.paused and self.asks())

    @invariant()
    def runs_start_in_order_and_end_at_most_once(self) -> None:
        accepted, started = self.in_line()
        ended = self.ended()
        unstarted = [run_id for run_id in accepted if run_id in ended and run_id not in started]
        assert started == [run_id for run_id in accepted if run_id not in unstarted][: len(started)]
        assert [run_id for run_id in ended if run_id in started] == started[
            : len(ended) - len(unstarted)
        ]
        assert max(Counter(ended).values(), default=0) <= 1
        turn = self.talk.state.active_run
        assert [run_id for run_id in started if run_id not in ended] == (
            [turn.run.id] if turn else []
        )
        waiting = [queued.run.id for queued in self.talk.state.queue]
        assert waiting == [run_id for run_id in accepted if run_id not in {*started, *ended}]
        blocked = turn is not None or self.talk.state.approval is not None
        assert blocked or not waiting, "nobody waits while nobody has the turn"

    @invariant()
    def nothing_gated_starts_without_an_approval_of_its_arguments(self) -> None:
        gated: dict[tuple[str, str], ToolCall] = {}
        approved: set[tuple[str, str, str]] = set()
        for event in self.events:
            match event:
                case ModelReplied():
                    gated |= {
                        (event.step_id, tool_call.id): tool_call
                        for tool_call in event.tool_calls
                        if tool_call.gated
                    }
                case ApprovalAnswered():
                    approved |= {
                        (event.step_id, call_answer.tool_call_id, call_answer.arguments_hash)
                        for call_answer in event.answers
                        if call_answer.kind == "approved"
                    }
                case ToolCallStarted() | ToolCallsStarted():
                    several = isinstance(event, ToolCallsStarted)
                    for call in event.calls if several else [event]:
                        key = (event.step_id, call.tool_call_id)
                        if key in gated:
                            assert (*key, arguments_hash(gated[key])) in approved

    @invariant()
    def the_window_is_the_fold_of_the_events(self) -> None:
        window: list[Message] = []
        for event in self.events:
            match event:
                case MessageAppended(message=Message(role="approval")):
                    pass
                case MessageAppended():
                    window.append(event.message)
                case SystemPromptRebuilt():
                    window[0] = event.message
                case ContextReplaced():
                    known = {message.id: message for message in (*self.recorded(), *window)}
                    gone = {message.id for message in window} - {*event.message_ids}
                    assert {*event.evicted} == gone
                    window = [known[name] for name in event.message_ids]
                case ConversationCompacted() | ContextCleared():
                    gone = len(event.evicted)
                    assert [message.id for message in window[1 : 1 + gone]] == event.evicted
                    cleared = isinstance(event, ContextCleared)
                    window[1 : 1 + gone] = [] if cleared else [event.message]
        assert self.talk.state.window == window
        ids = [message.id for message in window]
        assert len(ids) == len(set(ids)), "a message is in the history once"
        length = WindowLength()
        for message in window:
            length.add(message)
        assert self.talk.state.length.bytes == length.bytes

    def teardown(self) -> None:
        """Every run that was accepted comes to its end, in each conversation."""
        HAPPENED["histories"] += 1
        self.end_all()
        self.told()
        while self.others:
            self.talk, self.stored, self.events = self.others.pop()
            self.end_all()
            self.told()

    def told(self) -> None:
        """Count what happened in a conversation."""
        HAPPENED.update(told_by(event.topic for event in self.events))

    def end_all(self) -> None:
        """Bring the runs of a conversation to their ends."""
        while next_action(self.talk.state) is not None or self.talk.state.approval is not None:
            action = next_action(self.talk.state)
            if action is None:
                self.approval_expires(lost=False)  # type: ignore[call-arg]
            elif self.goes_on():
                self.engine_goes_on(lost=False)  # type: ignore[call-arg]
            elif isinstance(action, AskModel | Compact):
                step_id = action.step_id
                self.decide(
                    lambda talk, step_id=step_id: fail(
                        talk, step_id, Failure("llm_error", "odd"), at=self.now()
                    )
                )
            elif isinstance(action, RefuseCall):
                self.call_is_refused(lost=False)  # type: ignore[call-arg]
            else:
                self.tool_is_interrupted(which=0, lost=False)  # type: ignore[call-arg]
        self.the_model_can_always_be_asked()
        self.runs_start_in_order_and_end_at_most_once()
        accepted = [event.run_id for event in self.events if isinstance(event, RunAccepted)]
        assert sorted(self.ended()) == sorted(accepted)
        again = self.request([self.message(role="user", content="Still there?")], max_steps=1)
        moments = {"asked_at": self.now(), "at": self.now()}
        HAPPENED["conversations asked at the end"] += 1
        kind = AgentType.letta_v1_agent
        refused = accept(self.talk, again, Terms(kind, []), **moments)
        assert refused is None, "no conversation stays blocked"
        assert self.asks(), "the model is asked next"
        self.commit()

    @invariant()
    def what_is_told_of_a_run_has_growing_numbers(self) -> None:
        last: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, ConversationCompacted):
                assert event.number > last.get(event.run_id, OPENING_NUMBER)
                last[event.run_id] = event.number + served_parts(event.message) - 1
            if isinstance(event, MessageAppended) and event.run_id and not event.sent:
                assert event.number is not None
                assert event.number > last.get(event.run_id, OPENING_NUMBER)
                parts = served_parts(event.message) if event.chunks is None else len(event.chunks)
                last[event.run_id] = event.number + parts - 1

    # Parts

    def spoken(
        self, reply: ModelReply, held: CallGates, *, parallel: bool, in_pieces: bool, jump: int
    ) -> Spoken:
        """The message of a step, told as one or in pieces that begin at any later number."""
        message_id = f"message-{self.fresh()}"
        if not in_pieces:
            return Spoken(message_id, self.now())
        envelope = Envelope(id=message_id, date=self.now())
        pieces = StepChunks(envelope, parallel=parallel, gates=held)
        number = self.talk.running().last_number + jump
        spoken = Spoken(message_id, self.now(), number, pieces.chunks)
        calls = [held.mark_gated(call) for call in kept_calls(reply, parallel=parallel)]
        message = spoken_message(spoken, reply, calls)
        pieces.rest(assistant_parts(message, envelope))
        return spoken

    def in_line(self) -> tuple[list[str], list[str]]:
        """The runs in the order in which they wait, and those that have started; an answer goes
        before all that wait."""
        order: list[str] = []
        started: list[str] = []
        for event in self.events:
            if isinstance(event, RunAccepted):
                order.insert(
                    self.behind(order, started) if event.answers else len(order), event.run_id
                )
            elif isinstance(event, RunStarted):
                started.append(event.run_id)
        return order, started

    def behind(self, order: list[str], started: list[str]) -> int:
        """The place behind the run that has started last."""
        return order.index(started[-1]) + 1 if started else 0

    def ended(self) -> list[str]:
        ends = RunCompleted | RunFailed | RunCancelled
        return [
            run_id
            for event in self.events
            if isinstance(event, ends | QueuedRunsCancelled)
            for run_id in (
                event.run_ids if isinstance(event, QueuedRunsCancelled) else [event.run_id]
            )
        ]

    def unended(self) -> list[str]:
        accepted = [event.run_id for event in self.events if isinstance(event, RunAccepted)]
        return [run_id for run_id in accepted if run_id not in self.ended()]

    def decide(self, decision: Any, *, lost: bool = False) -> None:
        """Decide; with `lost` the process dies before the commit, and decides again."""
        decision(self.talk)
        if lost:
            HAPPENED["crashes"] += 1
            self.talk.take_new_events()
            self.talk = self.replayed(History(None, self.stored))
            decision(self.talk)
        self.repeat = decision
        assert self.commit(), "what is reported for the first time is recorded"

    def commit(self) -> int:
        fresh = self.talk.take_new_events()
        for event in fresh:
            assert event.originator_version == len(self.stored) + 1
            self.stored.append(
                StoredEvent(
                    event.originator_id,
                    event.originator_version,
                    event.topic,
                    event.schema_version,
                    "org-1",
                    event.about,
                    event.payload_json(),
                    {},
                    event.timestamp,
                )
            )
            self.events.append(event_of("agent", self.stored[-1]))
        return len(fresh)

    def replayed(self, history: History) -> Conversation:
        return replay("agent", Conversation, self.talk.id, history)

    def asks(self) -> bool:
        return isinstance(next_action(self.talk.state), AskModel)

    def compacts(self) -> bool:
        return isinstance(next_action(self.talk.state), Compact)

    def goes_on(self) -> bool:
        return isinstance(next_action(self.talk.state), StartTools | EndRun)

    def runs_tool(self) -> bool:
        return isinstance(next_action(self.talk.state), RunTools)

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def now(self) -> Any:
        return NOW + timedelta(milliseconds=self.count)

    def message(self, **fields: Any) -> Message:
        return Message(id=f"message-{self.fresh()}", created_at=self.now(), **fields)
