"""A message request to a group: read it, check it, derive the id of its run, and start that."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.group_runs import (
    GROUP_MESSAGES_MAX,
    RECIPIENTS_MAX,
    GroupMessage,
    StartGroupRun,
)
from libs.contracts.letta import error_bodies
from libs.contracts.letta.enums import MessageRole
from libs.contracts.letta.message_requests import (
    MAX_STEPS_DEFAULT,
    STEPS_MAX,
    Content,
    MessageCreate,
    MessageTypes,
    Steps,
)
from libs.contracts.letta.request_size_limits import Metadata, Name
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.v1.message_request import KEY_TAKEN, is_retry

RUN = "group_run"


class GroupRequest(BaseModel):
    """Messages for a group, and how to answer them. With `recipients` they are private: only these
    members see them and answer."""

    messages: Annotated[list[MessageCreate], Field(max_length=GROUP_MESSAGES_MAX)] | None = None
    input: Content | None = None
    recipients: Annotated[list[Name], Field(max_length=RECIPIENTS_MAX)] | None = None
    max_steps: Steps = MAX_STEPS_DEFAULT
    include_return_message_types: MessageTypes | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _exactly_one_source(self) -> GroupRequest:
        if self.input is not None and self.messages is not None:
            raise ValueError("Send either 'input' or 'messages', not both.")
        if self.input is None and self.messages is None:
            raise ValueError("Must specify either 'input' or 'messages'.")
        if self.input is not None:
            self.messages = [MessageCreate(role=MessageRole.user, content=self.input)]
        return self


class GroupStreamRequest(GroupRequest):
    """The same, answered at once or as a stream."""

    streaming: bool = False
    include_pings: bool = True


async def read_group_request[R: GroupRequest](
    request: AnyRequest, group_id: str, model: type[R]
) -> tuple[R, StartGroupRun]:
    """The request to a group, and the command that it means."""
    body = await body_of(request, model)
    if not body.messages:
        raise Problem(422, error_bodies.MESSAGES_EMPTY)
    if not 1 <= body.max_steps <= STEPS_MAX:
        raise Problem(422, {"detail": f"`max_steps` must be between 1 and {STEPS_MAX}"})
    run_id = run_id_of(request, group_id, body.messages)
    now = api_of(request).clock.now()
    command = StartGroupRun(
        group_id=group_id,
        run_id=run_id,
        messages=[
            transcript_message(run_id, n, message, now) for n, message in enumerate(body.messages)
        ],
        created_at=now,
        recipients=list(dict.fromkeys(body.recipients or [])),
        max_steps=body.max_steps,
        request_hash=sha256(await request.body()).hexdigest(),
        retry=is_retry(request),
        metadata=body.metadata or {},
    )
    return body, command


def run_id_of(request: AnyRequest, group_id: str, messages: list[MessageCreate]) -> str:
    """The id of the run: by the Idempotency-Key or the otids of the messages, else a fresh one."""
    key = request.headers.get("idempotency-key")
    if key:
        return derived_id(RUN, org_of(request), group_id, "key", key)
    otids = [str(message.otid or "") for message in messages]
    if all(otids):
        return derived_id(RUN, org_of(request), group_id, "otids", *otids)
    return api_of(request).ids.new(RUN)


def transcript_message(run_id: str, index: int, sent: MessageCreate, now: Any) -> GroupMessage:
    """A message as it will stand in the transcript."""
    content = sent.model_dump(mode="json")["content"]
    return GroupMessage(
        id=derived_id("message", run_id, str(index)),
        role=sent.role.value,
        content=content,
        created_at=now,
        name=sent.name,
        sender_id=sent.sender_id,
        otid=sent.otid or derived_id("otid", run_id, str(index)).removeprefix("otid-"),
    )


async def start_group_run(request: AnyRequest, command: StartGroupRun) -> str:
    """Start the run; returns the id of the run that answers, which may be an earlier one. Raises
    the 409 of an Idempotency-Key that came before with another request."""
    reply = await send(request, command)
    if reply["request_hash"] != command.request_hash:
        if request.headers.get("idempotency-key"):
            raise Problem(409, {"detail": KEY_TAKEN}, {"x-should-retry": "false"})
        parts = (command.run_id, command.request_hash)
        other = derived_id(RUN, org_of(request), *parts)
        reply = await send(request, command.model_copy(update={"run_id": other}))
    end_turn(request.scope["state"])  # the run may take long
    return str(reply["run_id"])


async def send(request: AnyRequest, command: StartGroupRun) -> dict[str, Any]:
    """Send the command; returns `run_id` and `request_hash` of the run that answers."""
    api = api_of(request)
    reply = await api.send(request, command, message_id=command.run_id, keyed=False)
    return dict(reply.result)
