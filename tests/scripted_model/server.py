"""Answers the routes of both APIs and the admin routes, one synchronous call per request."""

import json
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import from_json

from tests.scripted_model import messages_validator, messages_wire, validator, wire
from tests.scripted_model.embeddings import embed
from tests.scripted_model.http1 import Answer
from tests.scripted_model.refusal import Invalid, Refusal
from tests.scripted_model.script import BadScript, Fault, Step, parse
from tests.scripted_model.stats import REQUESTS_KEPT_MAX, Stats
from tests.scripted_model.turn import (
    ActiveRun,
    JSONObject,
    Reply,
    read_turn,
    reply_to,
    system_prompt,
)

FAULT_USES_KEPT_MAX = 50_000
BYTES_PER_TOKEN = 4  # as usage is counted
WINDOW = re.compile(r"\bWINDOW:(\d+)")


@dataclass(frozen=True, slots=True)
class Wire:
    """How an API is spoken. `chat` gives a valid request as the body of a chat.completions one."""

    name: str
    check: Callable[[Any], Refusal | None]
    chat: Callable[[JSONObject], JSONObject]
    refused: Callable[[Refusal], bytes]
    scripted_error: Callable[[str], bytes | None]
    whole: Callable[[Reply, JSONObject, int, int], bytes]
    events: Callable[[Reply, JSONObject, int, int], list[bytes]]
    garbage: bytes


CHAT = Wire(
    "chat",
    validator.check,
    lambda body: body,
    wire.refused,
    wire.scripted_error,
    wire.whole,
    wire.events,
    wire.GARBAGE,
)
MESSAGES = Wire(
    "messages",
    messages_validator.check,
    messages_wire.chat,
    messages_wire.refused,
    messages_wire.scripted_error,
    messages_wire.whole,
    messages_wire.events,
    messages_wire.GARBAGE,
)


class BadAdminRequest(ValueError):
    """An admin route got a body that it cannot use; the message says what it needs."""


def window(messages: list[JSONObject]) -> float:
    """How many tokens a request may have: what `WINDOW:<tokens>` in its system prompt says."""
    found = WINDOW.search(system_prompt(messages) or "")
    return float(found[1]) if found else float("inf")


class Server:
    """The scripted model itself. `answer` is what a Connection calls for every request."""

    def __init__(self) -> None:
        self._serials = count(1)  # never reset: ids of tool calls must not come back
        self._routes: dict[tuple[str, str], Callable[[bytes, str], Answer]] = {
            ("POST", "/chat/completions"): lambda body, _: self._ask(CHAT, body),
            ("POST", "/messages"): lambda body, _: self._ask(MESSAGES, body),
            ("POST", "/anthropic/messages"): lambda body, _: self._ask(MESSAGES, body),
            ("GET", "/anthropic/models"): self._claudes,
            ("POST", "/embeddings"): self._embeddings,
            ("GET", "/models"): self._models,
            ("GET", "/_stats"): self._stats,
            ("GET", "/_requests"): self._requests,
            ("POST", "/_reset"): self._reset,
            ("POST", "/_delay"): self._set_delay,
            ("POST", "/_fail"): self._set_fail,
            ("POST", "/_refuse"): self._set_refuse,
            ("POST", "/_answer"): self._set_answers,
        }
        self._start_over()

    def _start_over(self) -> None:
        self.stats = Stats()
        self._delay_ms = 0.0
        self._fails: dict[str, tuple[str, int]] = {}  # kind of request: (code, how many more)
        self._refuses: dict[bytes, str] = {}  # what no request may hold: with which code
        self._answers: dict[bytes, list[bytes]] = {}  # what is answered, by what a request holds
        self._fault_uses: dict[tuple[str, int], int] = {}

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """The answer to one request; a defect of this server is answered 500 and counted."""
        path, _, query = target.partition("?")
        path = path.replace("/v1/", "/", 1)
        try:
            route = self._routes.get((method, path))
            if route is not None:
                return route(body, query)
            return self._other(method, path, target)
        except BadAdminRequest as error:
            return _invalid(str(error))
        except Exception as error:
            traceback.print_exc()
            self.stats.counts["defects"] += 1
            return Answer([wire.error(500, f"Scripted model defect: {error!r}", "defect")])

    # -- the APIs of the models

    def _ask(self, spoken: Wire, body: bytes) -> Answer:
        self.stats.counts[spoken.name] += 1
        try:
            request = from_json(body)
        except ValueError:
            reason = Refusal("We could not parse the JSON body of your request.")
            return self._refused(spoken, reason, None)
        self.stats.requests.append(body)
        if refusal := spoken.check(request):
            messages = request.get("messages") if isinstance(request, dict) else request
            return self._refused(spoken, refusal, messages)
        chat = spoken.chat(request)
        turn = read_turn(chat["messages"])
        self.stats.ask(turn.text, turn.step)
        if failed := self._failed_by_admin(spoken, "chat") or self._refused_by_admin(spoken, body):
            return failed
        if given := next(
            (answer for text, answer in self._answers.items() if answer and text in body), []
        ):
            return Answer([given.pop(0)])
        try:
            step = parse(turn.text).step(turn.calls_made)
        except BadScript as error:
            self.stats.counts["bad_scripts"] += 1
            return Answer([spoken.refused(Refusal(str(error), "messages", "bad_script"))])
        if len(body) > BYTES_PER_TOKEN * window(chat["messages"]):
            self.stats.counts["too_long"] += 1
            failure = spoken.scripted_error("context_length_exceeded")
            assert failure is not None, "every wire has words for this"
            return Answer([failure])
        answer = self._play(spoken, turn, step, request, len(body))
        answer.delay_ms = self._delay_ms + step.slow_ms
        return answer

    def _refused(self, spoken: Wire, refusal: Refusal, messages: Any) -> Answer:
        self.stats.refuse(refusal.message, messages)
        return Answer([spoken.refused(refusal)])

    def _play(
        self, spoken: Wire, turn: ActiveRun, step: Step, request: JSONObject, length: int
    ) -> Answer:
        fault = self._due_fault(turn.text, step.faults)
        kind = fault.kind if fault else None
        if fault is not None:
            self.stats.counts[f"fault_{fault.kind}"] += 1
        if fault is not None and fault.kind == "fail":
            unknown = Refusal(f"FAIL:{fault.code}?", code="bad_script")
            return Answer([spoken.scripted_error(fault.code) or spoken.refused(unknown)])
        if kind == "hang":
            return Answer([], hang=True, done=self._left)
        if kind == "garbage":
            return _garbage(spoken, bool(request.get("stream")))
        answer = self._reply(spoken, turn, step, request, length)
        if kind == "cut":
            _cut(answer)
        return answer

    def _reply(
        self, spoken: Wire, turn: ActiveRun, step: Step, request: JSONObject, length: int
    ) -> Answer:
        serial = next(self._serials)
        reply = reply_to(turn, parse(turn.text), spoken.chat(request), serial)
        self.stats.counts["tool_calls"] += len(reply.calls)

        def done(whole: bool) -> None:
            if whole:
                self.stats.answer(turn.text, turn.step)
            else:
                self._left(whole)

        if request.get("stream"):
            self.stats.counts[f"{spoken.name}_stream"] += 1
            events = spoken.events(reply, request, serial, length)
            parts = [wire.STREAM_HEAD + events[0], *events[1:-1], events[-1] + wire.STREAM_END]
            return Answer(parts, drip_ms=step.drip_ms, done=done)
        written = spoken.whole(reply, request, serial, length)
        return Answer([wire.ok(written, serial)], done=done)

    def _left(self, whole: bool) -> None:
        if not whole:
            self.stats.counts["abandoned"] += 1

    def _due_fault(self, text: str, faults: tuple[Fault, ...]) -> Fault | None:
        for fault in faults:
            if fault.times is None:
                return fault
            key = (text, fault.index)
            used = self._fault_uses.get(key, 0)
            if used < fault.times:
                self._fault_uses[key] = used + 1
                if len(self._fault_uses) > FAULT_USES_KEPT_MAX:
                    del self._fault_uses[next(iter(self._fault_uses))]
                return fault
        return None

    def _embeddings(self, body: bytes, _query: str) -> Answer:
        self.stats.counts["embeddings"] += 1
        try:
            request = json.loads(body)
            self.stats.requests.append(body)
            written = embed(request)
        except Invalid as invalid:
            return self._refused(CHAT, invalid.refusal, None)
        except ValueError:
            reason = Refusal("We could not parse the JSON body of your request.")
            return self._refused(CHAT, reason, None)
        failed = self._failed_by_admin(CHAT, "embeddings")
        return failed or Answer([wire.ok(written)], delay_ms=self._delay_ms)

    def _models(self, _body: bytes, _query: str) -> Answer:
        self.stats.counts["models"] += 1
        return _ok(json.dumps({"object": "list", "data": [_model(m) for m in wire.MODELS]}))

    def _claudes(self, _body: bytes, _query: str) -> Answer:
        self.stats.counts["models"] += 1
        return _ok(messages_wire.models())

    def _other(self, method: str, path: str, target: str) -> Answer:
        name = path.removeprefix("/models/")
        if method == "GET" and name in wire.MODELS:
            self.stats.counts["models"] += 1
            return _ok(json.dumps(_model(name)))
        self.stats.counts["other"] += 1
        kind = "invalid_request_error"
        return Answer([wire.error(404, f"Invalid URL ({method} {target})", kind)])

    # -- the admin routes

    def _failed_by_admin(self, spoken: Wire, kind: str) -> Answer | None:
        code, left = self._fails.get(kind, ("", 0))
        if not left:
            return None
        self._fails[kind] = (code, left - 1)
        self.stats.counts["failed_by_admin"] += 1
        failure = spoken.scripted_error(code)
        assert failure is not None, "_set_fail accepts only codes that name a failure"
        return Answer([failure], delay_ms=self._delay_ms)

    def _refused_by_admin(self, spoken: Wire, body: bytes) -> Answer | None:
        code = next((code for text, code in self._refuses.items() if text in body), None)
        if code is None:
            return None
        self.stats.counts["refused_by_admin"] += 1
        failure = spoken.scripted_error(code)
        assert failure is not None, "_set_refuse accepts only codes that name a failure"
        return Answer([failure])

    def _stats(self, _body: bytes, query: str) -> Answer:
        text = parse_qs(query, keep_blank_values=True).get("text", [None])[0]
        return _ok(self.stats.written(text))

    def _requests(self, _body: bytes, query: str) -> Answer:
        last = parse_qs(query).get("last", [str(REQUESTS_KEPT_MAX)])[0]
        if not last.isdecimal():
            return _invalid(f"'last' must be a whole number, not '{last}'.")
        return _ok(self.stats.written_requests(int(last)))

    def _reset(self, _body: bytes, _query: str) -> Answer:
        self._start_over()
        return _ok("{}")

    def _set_delay(self, body: bytes, _query: str) -> Answer:
        asked = _admin_body(body, "ms")
        self._delay_ms = float(asked["ms"])
        return _ok(json.dumps({"ms": self._delay_ms}))

    def _set_fail(self, body: bytes, _query: str) -> Answer:
        asked = _admin_body(body, "status")
        code, kind = str(asked["status"]), asked.get("kind", "chat")
        if wire.scripted_error(code) is None or kind not in ("chat", "embeddings"):
            return _invalid("'status' must be 400 to 599, 'kind' chat or embeddings.")
        self._fails[kind] = (code, int(asked.get("count", 1)))
        return _ok(json.dumps({"status": code, "count": self._fails[kind][1], "kind": kind}))

    def _set_refuse(self, body: bytes, _query: str) -> Answer:
        asked = _admin_body(body, "text")
        code, text = str(asked.get("status", 400)), asked["text"]
        if wire.scripted_error(code) is None or not text or not isinstance(text, str):
            return _invalid("'status' must be 400 to 599, 'text' not be empty.")
        self._refuses[text.encode()] = code
        return _ok(json.dumps({"text": text, "status": code}))

    def _set_answers(self, body: bytes, _query: str) -> Answer:
        asked = _admin_body(body, "text")
        given = [
            wire.raw(answer.get("status", 200), answer["type"], answer["body"])
            for answer in asked["answers"]
        ]
        self._answers[asked["text"].encode()] = given
        return _ok(json.dumps({"text": asked["text"], "answers": len(given)}))


def _admin_body(body: bytes, needed: str) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise BadAdminRequest(f"The body must be JSON: {error}") from error
    if not isinstance(asked, dict) or needed not in asked:
        raise BadAdminRequest(f"The body must be an object with '{needed}'.")
    return asked


def _ok(body: bytes | str) -> Answer:
    return Answer([wire.ok(body if isinstance(body, bytes) else body.encode())])


def _invalid(message: str, code: str | None = None, param: str | None = None) -> Answer:
    return Answer([wire.error(400, message, "invalid_request_error", code, param)])


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": wire.CREATED, "owned_by": "scripted"}


def _garbage(spoken: Wire, stream: bool) -> Answer:
    if not stream:
        return Answer([wire.ok(spoken.garbage)])
    event = wire.http_chunk(b"data: " + spoken.garbage + b"\n\n")
    return Answer([wire.STREAM_HEAD + event + wire.STREAM_END])


def _cut(answer: Answer) -> None:
    """Keeps the first half of the answer: of its stream events, or of the bytes of its body."""
    answer.cut, answer.done = True, None  # neither answered nor abandoned
    if len(answer.parts) > 1:
        answer.parts = answer.parts[: len(answer.parts) // 2]
        return
    whole = answer.parts[0]
    start = whole.index(b"\r\n\r\n") + 4
    answer.parts = [whole[: start + (len(whole) - start) // 2]]
