"""Checks the lines of a source before anything of them is written.

A file from outside may say anything: each line is read as strictly as it is used later, and what
lines say of each other has to fit.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from pydantic import ValidationError

from libs.contracts.agent.conversations import ConversationEvent, main_conversation
from libs.contracts.agent_file import (
    DEPTH_MAX,
    FORMAT_VERSION,
    LINE,
    Definition,
    FileText,
    Footer,
    Header,
    HistoryPart,
    SecretValues,
)
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import AGENTS_MAX, ImportCounts
from libs.contracts.appended_histories import PastEvent, is_fit_id
from libs.contracts.bus_messages import EVENTS, JsonObject
from services.api.domain.line_parts import AnyLine, FileParts, WaitingCalls, unfit_id
from services.api.domain.refusals import first_error

# Of what has an id that others refer to: not messages, runs and passages.
THINGS_MAX = 200_000
# What things are defined by is kept until the agents are there.
DEFINITIONS_BYTES_MAX = 256 << 20
# Histories that go on in later lines.
OPEN_HISTORIES_MAX = 10_000
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
AS_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed numbers: 1 and -1
TOO_MANY_OPEN = b"\x01" * (DEPTH_MAX + 1)
ESCAPED_BACKSLASH, ESCAPED_QUOTE, NUL = rb"\\", rb"\"", rb"\u0000"
# Secrets come in lines of their own: as events they would be sealed by another server's keys.
SECRETS_TOPIC = "agent.secrets_replaced"
PASSAGE_TOPIC = "passage.created"
# The clock of the server that wrote a file may be wrong, but not by much.
FUTURE_MAX = timedelta(days=1)


def depth_of(line: bytes) -> int:
    """The depth of nested lists and objects: any number over the limit where it is more. Text that
    is no JSON may have another number."""
    text = line.replace(ESCAPED_BACKSLASH, b"").replace(ESCAPED_QUOTE, b"").replace(b'""', b"")
    brackets = b"".join(text.split(b'"')[::2]).translate(AS_STEPS, NOT_BRACKETS)
    if TOO_MANY_OPEN in brackets:
        return DEPTH_MAX + 1
    return max(accumulate(memoryview(brackets).cast("b")), default=0)


def has_nul(line: bytes) -> bool:
    """Whether a text of a line has the character NUL."""
    return NUL in line and NUL in line.replace(ESCAPED_BACKSLASH, b"")


class LineChecks:
    """The state of the checks of the lines so far. `own` are the ids of things that the source has,
    `referred` those that it says are there already."""

    def __init__(
        self,
        *,
        trusted: bool = False,
        sealed_here: bool = False,
        continues: bool = False,
        accept_tools: bool = False,
        now: datetime | None = None,
    ) -> None:
        self.now = now
        self.accept_tools = accept_tools or trusted or continues
        self.trusted = trusted
        self.sealed_here = trusted or sealed_here or continues
        self.continues = continues
        self.number = 0
        self.events = 0
        self.counts: Counter[str] = Counter()
        self.digest = hashlib.sha256()
        self.header: Header | None = None
        self.is_over = False
        self.own: set[str] = set()
        self.archives: set[str] = set()
        # Without their values.
        self.definitions: list[Definition] = []
        self.definitions_bytes = 0
        self.files = FileParts()
        # By the conversations that go on in later lines.
        self.waiting: dict[str, WaitingCalls] = {}
        self.referred: set[str] = set()
        self.open: dict[str, int] = {}
        # By the agents, the line with which the history of each begins.
        self.begun_agents: dict[str, int] = {}
        # By the agents, which blocks each sees at the end, and which line says so.
        self.seen_blocks: dict[str, tuple[int, frozenset[str]]] = {}
        self.seen_blocks_count = 0
        self.secrets: list[SecretValues] = []

    @property
    def so_far(self) -> ImportCounts:
        """The counts of the lines read so far."""
        return ImportCounts(lines=self.number, events=self.events)

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents of the source."""
        return self.header.agent_ids if self.header else ()

    @property
    def foreign_blocks(self) -> dict[str, int]:
        """The blocks that agents see and that do not come along, with the line that names each."""
        return {
            block_id: line
            for line, block_ids in self.seen_blocks.values()
            for block_id in block_ids - self.own
        }

    def take(self, raw: bytes) -> AnyLine:
        """The next line, if nothing is wrong with it. Raises BadSource."""
        self.number += 1
        if self.is_over:
            raise self.bad("it comes after the footer")
        if not self.trusted and depth_of(raw) > DEPTH_MAX:
            raise self.bad(f"it has more than {DEPTH_MAX} lists and objects in each other")
        if not self.trusted and has_nul(raw):
            raise self.bad("no text has a NUL character: leave it out")
        line = self.parse(raw)
        if self.header is None and not isinstance(line, Header):
            raise self.bad("the first line has to be the header")
        self.check(line)
        self.definitions_bytes += len(raw) if isinstance(line, Definition) else 0
        if self.definitions_bytes > DEFINITIONS_BYTES_MAX:
            raise self.bad(f"definitions may have {DEFINITIONS_BYTES_MAX:,} bytes together")
        if not isinstance(line, Footer):
            self.counts[line.kind] += 1
            self.digest.update(raw)
        return line

    def parse(self, raw: bytes) -> AnyLine:
        """A line as what it says it is."""
        try:
            return LINE.validate_json(raw)
        except ValidationError as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise self.bad(f"`{place}`: {first['msg']}" if place else first["msg"]) from None

    def bad(self, message: str) -> BadSource:
        """An error of the present line."""
        return BadSource.at_line(self.number, message)

    def check(self, line: AnyLine) -> None:
        """Check that a line fits those before it."""
        unfit = None if self.trusted else unfit_id(line)
        if unfit is not None:
            raise self.bad(f"`{unfit[:100]}` is no id: ids have letters, digits, `-` and `_`")
        match line:
            case Header():
                self.check_header(line)
            case Definition():
                self.check_definition(line)
            case HistoryPart():
                self.check_history(line)
            case FileText():
                if line.folder_id not in self.own and not self.continues:
                    raise self.bad(f"folder {line.folder_id} is not defined before its files")
                problem = None if self.trusted else self.files.take(line)
                if problem:
                    raise self.bad(problem)
                self.add(line.file_id)
            case SecretValues():
                self.check_agent(line.agent_id)
                self.secrets.append(line)
                if len(self.secrets) > len(self.agent_ids):
                    raise self.bad("there are more secrets than agents")
            case Footer():
                self.check_footer(line)

    def check_header(self, header: Header) -> None:
        """There is one, of a version that is known, with some agents."""
        if self.header is not None:
            raise self.bad("there is a header already")
        if header.version > FORMAT_VERSION:
            raise self.bad(
                f"the file has version {header.version} of the format, and this server reads"
                f" {FORMAT_VERSION}: import it into a newer one"
            )
        if not 1 <= len(set(header.agent_ids)) <= AGENTS_MAX:
            raise self.bad(f"`agent_ids` has to name 1 to {AGENTS_MAX} agents")
        for agent_id in header.agent_ids:
            if not agent_id.startswith("agent-"):
                raise self.bad(f"`agent_ids`: {agent_id[:100]} is no id of an agent")
        self.header = header

    def check_agent(self, agent_id: str) -> None:
        """An agent is one of the source."""
        if agent_id not in self.agent_ids:
            raise self.bad(f"agent {agent_id[:100]} is not one of the header's")

    def check_definition(self, definition: Definition) -> None:
        """A thing is defined once, and only agents of the source have it."""
        for agent_id in definition.attached_to:
            self.check_agent(agent_id)
        if definition.id in self.own or definition.id in self.referred:
            raise self.bad(f"{definition.id[:100]} is defined twice")
        self.definitions.append(definition.model_copy(update={"value": {}}))
        if definition.value:
            self.add(definition.id)
        else:
            self.referred.add(definition.id)
        if len(self.definitions) > THINGS_MAX:
            raise self.bad(f"there are more than {THINGS_MAX:,} definitions: split the file")
        if definition.of == "archive" and definition.value:
            self.archives.add(definition.id)

    def add(self, thing_id: str) -> None:
        """One more thing of the source."""
        self.own.add(thing_id)
        if len(self.own) > THINGS_MAX:
            raise self.bad(f"there are more than {THINGS_MAX:,} things: split the file")

    def check_history(self, part: HistoryPart) -> None:
        """The events of a history follow each other, and are of agents of the source."""
        history = part.history
        name = history.aggregate_id
        begins_at = history.first_version if self.continues else 1
        expected = self.open.get(name, begins_at)
        if history.first_version != expected:
            raise self.bad(
                f"the history of {name[:100]} has to go on with version {expected}, and not"
                f" {history.first_version}"
            )
        for place, past in enumerate(history.events):
            payload = self.check_event(part.service, past, place, name)
            if expected == 1 and place == 0:
                self.check_beginning(part.service, name, past.topic, payload)
            seen = payload.get("block_ids") if name in self.begun_agents else None
            if isinstance(seen, list):
                self.see_blocks(name, frozenset(map(str, seen)))
        if not history.events and not self.continues:
            raise self.bad(f"the history of {name[:100]} has no event in this line")
        self.events += len(history.events)
        if history.complete:
            self.check_waiting(name)
            self.open.pop(name, None)
        else:
            self.open[name] = expected + len(history.events)
            if len(self.open) > OPEN_HISTORIES_MAX:
                raise self.bad("too many histories go on in later lines: one after the other")

    def see_blocks(self, agent_id: str, block_ids: frozenset[str]) -> None:
        """An agent sees these blocks from now on."""
        _, before = self.seen_blocks.get(agent_id, (0, frozenset()))
        self.seen_blocks_count += len(block_ids) - len(before)
        if self.seen_blocks_count > THINGS_MAX:
            raise self.bad(f"agents see more than {THINGS_MAX:,} blocks: split the file")
        self.seen_blocks[agent_id] = (self.number, block_ids)

    def check_event(self, service: str, past: PastEvent, place: int, name: str) -> JsonObject:
        """An event is one that this server knows, with the fields that it has."""
        if past.occurred_at.tzinfo is None:
            raise self.bad(f"event {place + 1}: `occurred_at` has to say its time zone")
        if self.now is not None and past.occurred_at > self.now + FUTURE_MAX:
            raise self.bad(f"event {place + 1}: `occurred_at` is in the future")
        if past.topic == SECRETS_TOPIC and not self.sealed_here:
            raise self.bad(f"event {place + 1}: `{past.topic}`: secrets are lines of their own")
        kind = EVENTS.get(f"{service}.{past.topic}")
        if kind is None or past.schema_version > kind.schema_version:
            raise self.bad(
                f"event {place + 1}: `{past.topic}` version {past.schema_version} is not known:"
                " import it into a newer server"
            )
        if service == "agent":
            self.check_agents_of(past.payload)
        if self.trusted:
            return past.payload
        try:
            payload = kind.upcast(past.payload, past.schema_version)
            event = kind.model_validate(
                {
                    **payload,
                    "originator_id": "checked",
                    "originator_version": 1,
                    "timestamp": past.occurred_at,
                }
            )
        except ValidationError as invalid:
            raise self.bad(f"event {place + 1}: {first_error(invalid)}") from None
        except Exception as impossible:
            raise self.bad(f"event {place + 1}: {impossible}") from None
        if not is_fit_id(event.about):
            raise self.bad(f"event {place + 1}: `{event.about[:100]}` is no id")
        if isinstance(event, ConversationEvent):
            self.waiting.setdefault(name, WaitingCalls()).take(event)
        return payload

    def check_waiting(self, name: str) -> None:
        """Nothing of a conversation is carried out that its client was not asked about here."""
        waiting = self.waiting.pop(name, None)
        problem = waiting.problem if waiting else None
        if problem and not self.accept_tools:
            raise self.bad(problem)

    def check_agents_of(self, payload: JsonObject) -> None:
        """An event of an agent is about one of the source."""
        named = (payload.get(name) for name in ("run", "config", "step"))
        for about in (payload, *(value for value in named if isinstance(value, dict))):
            if agent_id := about.get("agent_id"):
                self.check_agent(str(agent_id))

    def check_beginning(self, service: str, name: str, topic: str, payload: dict[str, Any]) -> None:
        """A history is that of something which belongs to an agent of the source."""
        if service == "memory":
            if topic == PASSAGE_TOPIC:
                is_defined = payload.get("archive_id") in self.archives
                if not (is_defined or self.continues):
                    raise self.bad(f"the archive of {name[:100]} is not defined before it")
                return
            self.add(name)
            return
        if topic == "agent.created":
            self.check_agent(name)
            self.begun_agents[name] = self.number
            if payload.get("config", {}).get("id") != name:
                raise self.bad(f"`config.id` has to be {name[:100]}")
            return
        config = payload.get("config")
        agent_id = (config if isinstance(config, dict) else payload).get("agent_id")
        self.check_agent(str(agent_id))
        if topic != "conversation.created" and name != main_conversation(str(agent_id)):
            raise self.bad(f"{name[:100]} is not the conversation that {agent_id} always has")
        self.add(name)

    def check_footer(self, footer: Footer) -> None:
        """Everything that was written has come."""
        self.is_over = True
        if dict(self.counts) != {kind: count for kind, count in footer.counts.items() if count}:
            raise self.bad(
                f"the footer counts {footer.counts}, and the file has {dict(self.counts)}"
            )
        if footer.sha256 != self.digest.hexdigest():
            raise self.bad("the digest is another one: the file was changed or damaged")

    def check_end(self) -> None:
        """Nothing is missing. Raises BadSource."""
        if not self.is_over:
            raise BadSource.of_file("the footer is missing: the file is cut off")
        if self.open:
            name = next(iter(self.open))
            raise BadSource.of_file(f"the history of {name[:100]} is not complete")
        if not self.files.is_whole:
            raise BadSource.of_file(f"the text of {self.files.file_id[:100]} is not complete")
        missing = [agent for agent in self.agent_ids if agent not in self.begun_agents]
        if missing and not self.continues:
            raise BadSource.of_file(f"agent {missing[0]} has no history")
        for agent_id, line in self.begun_agents.items():
            if main_conversation(agent_id) not in self.own and not self.continues:
                message = f"the history of {main_conversation(agent_id)} is missing: its messages"
                raise BadSource.at_line(line, message)
