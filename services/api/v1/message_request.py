"""A message request to an agent: read it, check it, derive the id of its run, and start that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from libs.contracts.agent.approvals import AnswerApproval
from libs.contracts.agent.conversations import Message, main_conversation
from libs.contracts.agent.runs import RunOptions, StartRun
from libs.contracts.bus_messages import Accepted
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta import error_bodies
from libs.contracts.letta.message_requests import STEPS_MAX, LettaRequest
from libs.contracts.letta.runs import run_config
from services.api.adapters.conversations.run_follower import RunFollower
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_parsing import AnyRequest, body_of, valid_id, whole_number
from services.api.v1.approvals_and_client_tools import (
    answers_of,
    client_skills_of,
    client_tools_of,
    messages_of,
    otid_of_answer,
)
from services.api.v1.sleeptime import with_reviews

# The most that OpenAI gives.
TOP_LOGPROBS_MAX = 20
NO_OPTIONS = RunOptions()
KEY_TAKEN = "This Idempotency-Key came before with another request: use a new one for a new request"


@dataclass(frozen=True, slots=True)
class Addressee:
    """The agent and the conversation that messages are for. `unless_busy` refuses them while
    another run goes on there, instead of queueing them."""

    agent_id: str
    conversation_id: str
    unless_busy: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is the agent's own conversation."""
        return self.conversation_id == main_conversation(self.agent_id)

    @property
    def name(self) -> str:
        """The name of the conversation among requests: the agent's own by the agent's id."""
        return self.agent_id if self.is_own else self.conversation_id


@dataclass(frozen=True, slots=True)
class MessageRequest[R: LettaRequest]:
    """A message request, read and given its ids."""

    command: StartRun | AnswerApproval
    request: R
    named_by_client: bool
    with_run_id: Callable[[str], MessageRequest[R]]
    """The same request under another run id."""

    def look_first(self, follower: RunFollower) -> bool:
        """Whether the run that answers may have begun before this request came."""
        if isinstance(self.command, AnswerApproval):
            return True  # what follows from an answer may be history with the reply
        return self.named_by_client or follower.run_id != self.command.run.id


async def read_request[R: LettaRequest](
    request: AnyRequest, agent_id: str, model: type[R]
) -> MessageRequest[R]:
    """The request to an agent, valid and with the id of the run that will answer it."""
    to = Addressee(valid_id("agent", agent_id), main_conversation(agent_id))
    return await address(request, await body_of(request, model), to)


async def address[R: LettaRequest](
    request: AnyRequest, body: R, to: Addressee
) -> MessageRequest[R]:
    """The request to a conversation, valid and with the id of the run that will answer it."""
    api = api_of(request)
    if not body.all_messages:
        raise Problem(422, error_bodies.MESSAGES_EMPTY)
    if not 1 <= body.max_steps <= STEPS_MAX:
        raise Problem(422, {"detail": f"`max_steps` must be between 1 and {STEPS_MAX}"})
    name = run_named_by_client(request, to.name, body)
    now = api.clock.now()
    in_the_background = isinstance(body, bodies.LettaAsyncRequest)
    request_hash = sha256(await request.body()).hexdigest()
    key = (org_of(request), to.conversation_id, request_hash)
    again = is_retry(request)
    if not again:
        api.identical_request_runs.note_first_try(key)

    def build(run_id: str) -> MessageRequest[R]:
        run = run_config(
            body,
            id=run_id,
            agent_id=to.agent_id,
            conversation_id=None if to.is_own else to.conversation_id,
            created_at=now,
            background=in_the_background or getattr(body, "background", False),
            metadata={"run_type": run_type(to, in_the_background=in_the_background)},
        )
        command = start_command(
            body,
            agent_id=to.agent_id,
            conversation_id=to.conversation_id,
            run=run,
            messages=[
                stored_message(run_id, n, message, now)
                for n, message in enumerate(messages_of(body))
            ],
            max_steps=body.max_steps,
            request_hash=request_hash,
            retry=name is None and again,
            earlier_runs=api.identical_request_runs.excluded_runs(key) if again else [],
            stream_tokens=getattr(body, "stream_tokens", False),
            unless_busy=to.unless_busy,
            structured_summaries=body.include_compaction_messages,
            options=options_of(body),
        )
        return MessageRequest(command, body, name is not None or command.retry, build)

    return build(name or api.inbox.new_run())


def run_type(to: Addressee, *, in_the_background: bool) -> str:
    """The `run_type` that V1 gives a run, by its route."""
    if in_the_background:
        return "send_message_async"
    return "send_message" if to.is_own else "send_conversation_message"


def start_command(body: LettaRequest, **fields: Any) -> StartRun | AnswerApproval:
    """The command that a request means: to start a run, or to answer an approval."""
    fields |= {"client_tools": client_tools_of(body), "client_skills": client_skills_of(body)}
    answers = answers_of(body)
    if answers:
        return AnswerApproval(answers=answers, otid=otid_of_answer(body), **fields)
    return StartRun(**fields)


def options_of(body: LettaRequest) -> RunOptions | None:
    """The options in which a request differs from its agent's settings; None without any. Raises
    the 422 for options that do not go together."""
    if body.top_logprobs is not None and not body.return_logprobs:
        detail = "`top_logprobs` needs `return_logprobs`: set it to true, or leave this out"
        raise Problem(422, {"detail": detail})
    if not 0 <= (body.top_logprobs or 0) <= TOP_LOGPROBS_MAX:
        detail = f"`top_logprobs` must be between 0 and {TOP_LOGPROBS_MAX}"
        raise Problem(422, {"detail": detail})
    options = RunOptions(
        model=body.override_model,
        system=body.override_system,
        logprobs=body.return_logprobs,
        top_logprobs=body.top_logprobs,
        token_ids=body.return_token_ids,
    )
    return None if options == NO_OPTIONS else options


def run_named_by_client(request: AnyRequest, name: str, body: LettaRequest) -> str | None:
    """The id of the run that the Idempotency-Key or the otids of the messages determine; None
    without either."""
    key = request.headers.get("idempotency-key")
    if key:
        return derived_id("run", org_of(request), name, "key", key)
    otids = [str(message.otid or "") for message in body.all_messages]
    return run_of_otids(org_of(request), name, otids) if otids and all(otids) else None


def run_of_otids(org: str, name: str, otids: Sequence[str]) -> str:
    """The id of the run whose messages have these otids, all of them, in one conversation."""
    return derived_id("run", org, name, "otids", *otids)


def is_retry(request: AnyRequest) -> bool:
    """Whether an SDK says that it lost the answer and asks again."""
    return bool(whole_number(request.headers.get("x-stainless-retry-count", "")))


def stored_message(run_id: str, index: int, sent: Any, now: Any) -> Message:
    """A message as it will stand in the history."""
    return Message(
        id=derived_id("message", run_id, str(index)),
        role=sent.role.value,
        content=sent.model_dump(mode="json")["content"],
        created_at=now,
        otid=sent.otid or derived_id("otid", run_id, str(index)).removeprefix("otid-"),
        name=sent.name,
        sender_id=sent.sender_id,
    )


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The run that answers; whether its end counts for a sleeptime group of its agent."""

    id: str
    sleeptime: bool


async def start_run(request: AnyRequest, asked: MessageRequest[Any]) -> StartedRun:
    """Start the run; returns the run that answers, which may be an earlier one.

    Raises Problem 409 if another request came under the same Idempotency-Key. Under the same otids
    it is a request of its own, as in V1: some clients send the same otid for all their messages.
    """
    reply = await send_start(request, asked.command)
    if reply["request_hash"] != asked.command.request_hash:
        if request.headers.get("idempotency-key"):
            raise Problem(409, {"detail": KEY_TAKEN}, {"x-should-retry": "false"})
        parts = (asked.command.run.id, asked.command.request_hash)
        asked = asked.with_run_id(derived_id("run", org_of(request), *parts))
        reply = await send_start(request, asked.command)
    end_turn(request.scope["state"])  # the run may take long
    run_id = str(reply["run_id"])
    key = (org_of(request), asked.command.conversation, asked.command.request_hash)
    api_of(request).identical_request_runs.note_run(key, run_id)
    return StartedRun(run_id, bool(reply.get("sleeptime")))


async def send_start(request: AnyRequest, command: StartRun | AnswerApproval) -> dict[str, Any]:
    """Send the command; returns `run_id` and `request_hash` of the run that answers, and
    `sleeptime` if its end counts for a sleeptime group."""
    api = api_of(request)
    reply: Accepted = await api.send(request, command, message_id=command.run.id, keyed=False)
    return reply.result


async def start_and_follow(request: AnyRequest, asked: MessageRequest[Any]) -> RunFollower:
    """Start the run and follow it from before its start. Returns an entered follower, which the
    caller has to exit: of an earlier run, if the client sent the same request again. Raises Problem
    if the start is refused."""
    api = api_of(request)
    inbox = None if asked.named_by_client else api.inbox
    follower = RunFollower(api.runs, api.bus, org_of(request), asked.command.run.id, inbox=inbox)
    await follower.__aenter__()
    try:
        started = await start_run(request, asked)
    except BaseException:
        await follower.__aexit__()
        raise
    if started.id != follower.run_id:
        await follower.__aexit__()
        follower = RunFollower(api.runs, api.bus, org_of(request), started.id)
        await follower.__aenter__()
    if started.sleeptime:
        agent_id = asked.command.agent_id
        follower.complete_usage = partial(with_reviews, request, agent_id, started.id)
    return follower
