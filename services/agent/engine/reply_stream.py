"""A reply while it comes, as clients receive it: thoughts and words taken out of the arguments of
calls, where the loop of the agent reads those."""

from __future__ import annotations

from collections.abc import Iterator

from libs.contracts.agent.conversations import ToolCall
from services.agent.adapters.models.ports import (
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from services.agent.domain.runs.reply_interpretation import CallReaders


class ReplyStream:
    """Turns what a model says into what is sent of it. With `holds_text` what it writes may turn
    out to be thoughts, and is sent when that is known."""

    def __init__(self, readers: CallReaders, *, parallel: bool, holds_text: bool) -> None:
        self.readers = readers
        self.parallel = parallel
        self.holds_text = holds_text
        readers.native = False
        self.text_sent = False
        self.thoughts_sent = False
        self.calls: set[str] = set()
        self.unnamed: tuple[str, str] | None = None  # a call whose name was not sent yet

    def of(self, delta: ModelDelta) -> Iterator[ModelDelta]:
        """What is sent of a chunk."""
        match delta:
            case ReasoningDelta():
                if not self.thoughts_sent:
                    self.readers.native = True
                    yield delta
            case TextDelta():
                if not self.holds_text and not self.readers.words_first:
                    self.text_sent = True
                    yield delta
            case ToolCallDelta(id, name):
                if id in self.calls:
                    yield from self.argued(delta)
                elif self.parallel or not self.calls:
                    yield from self.ended_call()
                    self.calls.add(id)
                    yield from self.begun_call(delta, name or "")

    def begun_call(self, delta: ToolCallDelta, name: str) -> Iterator[ModelDelta]:
        """A call begins: its name waits for its thoughts."""
        if self.readers.reader(delta.id, name) is None:
            yield delta
        else:
            self.unnamed = (delta.id, name)

    def argued(self, delta: ToolCallDelta) -> Iterator[ModelDelta]:
        """What is sent of a chunk of arguments."""
        reader = self.readers.readers.get(delta.id)
        if reader is None:
            yield delta
            return
        read = reader.read(delta.arguments)
        if read.thoughts and not self.readers.native:
            self.thoughts_sent = True
            yield ReasoningDelta(read.thoughts, inner=True)
        if read.words and self.sends_words(delta.id):
            yield TextDelta(read.words)
        if read.rest and not reader.names.held:
            yield from self.called(delta.id, read.rest)

    def sends_words(self, call_id: str) -> bool:
        """Whether the words of a call are sent as they come: one text of a step is."""
        if self.text_sent or self.readers.words_first not in ("", call_id):
            return False
        self.readers.words_first = call_id
        return True

    def called(self, call_id: str, arguments: str) -> Iterator[ModelDelta]:
        """Arguments that are sent as such, behind the name."""
        if self.unnamed is not None:
            _, name = self.unnamed
            self.unnamed = None
            yield ToolCallDelta(call_id, name)
        yield ToolCallDelta(call_id, arguments=arguments)

    def ended_call(self) -> Iterator[ModelDelta]:
        """The call before another one is whole: if it says nothing to the user, it is sent."""
        if self.unnamed is None:
            return
        call_id, name = self.unnamed
        whole = self.readers.recorded(ToolCall(id=call_id, name=name, arguments=""))
        if whole.spoken_argument:
            self.unnamed = None
        else:
            yield from self.called(call_id, whole.arguments)
