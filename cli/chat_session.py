"""A conversation with an agent: what is typed, what is answered, and what needs a yes or no."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cli.exit_codes import CommandError
from cli.inputs import text_of
from cli.line_history import line_history
from cli.message_printing import AnswerWriter, MessagePrinter, PlainWriter, call_text
from cli.message_printing import text_of as content_text
from cli.output import printable, say, warn, write
from cli.pending_calls import own_calls
from cli.run_streams import WAITS, RunStream, user_message
from cli.server import Server
from cli.typed_lines import discard_typed, has_typed_line, pasted_lines

APPROVE, DENY = "/approve", "/deny"
HISTORY_DEFAULT = 10  # messages that /history shows
DISCARDED_SHOWN_MAX = 200  # characters
HELP = """\
/help            this list
/history [N]     the last messages, 10 without a number
/memory [LABEL]  the memory blocks, or the text of one
/model [HANDLE]  the model of this session; - is that of the agent
/send @FILE      say what is in a file
/approve         the answer to a question that lines of a pipe give; at a terminal y does as well
/deny [WHY]      the same: no
/exit            end the session, as Ctrl-D does; Ctrl-C cancels an answer"""


class ChatSession:
    """One session. What the server refuses is told, and the session goes on."""

    def __init__(
        self, server: Server, agent_id: str, name: str, *, model: str | None = None
    ) -> None:
        self._server = server
        self._path = f"/v1/agents/{agent_id}"
        self._agent_id = agent_id
        self._name = name
        self._model = model
        self._is_interactive = sys.stdin.isatty()
        self._has_brackets = False  # whether the terminal says where a paste begins and ends
        self._kept: list[str] = []  # lines of a pipe that answered no question

    def run(self) -> None:
        """Read lines until there are no more."""
        say(f"Talking with {self._name}. /help says what can be typed.")
        with line_history(self._is_interactive) as self._has_brackets:
            self._guarded(self._answer_pending)
            while (line := self._read("> ")) is not None:
                if line.strip() in ("/exit", "/quit"):
                    return
                if line.strip():
                    self._guarded(partial(self._take, line))

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something; what goes wrong with it does not end the session."""
        import letta_client

        from cli.api_problems import explanation

        try:
            action()
        except CommandError as problem:
            warn(str(problem))
        except UnicodeEncodeError:
            warn("This text has bytes that are no UTF-8, and was not sent")
        except letta_client.LettaError as problem:
            refusal = explanation(problem)
            if refusal is None:
                raise
            warn(str(refusal))

    def _take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: say(HELP),
            "/history": self._show_history,
            "/memory": self._show_memory,
            "/model": self._choose_model,
            "/send": lambda given: self._ask([user_message(text_of(given.strip()))]),
            APPROVE: lambda _: warn("No question waits for an answer: heeler approvals list"),
            DENY: lambda _: warn("No question waits for an answer: heeler approvals list"),
        }
        if word in commands:
            commands[word](rest.strip())
        elif word.startswith("/"):
            warn(f"There is no {word}: /help lists what there is")
        else:
            self._ask([user_message(line)])

    def _ask(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Send messages, print the answer, ask for approvals until none is needed."""
        while messages:
            run = RunStream(
                self._server, self._agent_id, messages, tokens=True, override_model=self._model
            )
            self._print(run)
            if run.error or (run.has_failed and not run.is_cancelled):
                warn(f"The run failed: {run.error or run.stop_reason}")
            messages = self._answers() if run.stop_reason == WAITS else []

    def _print(self, run: RunStream) -> None:
        """Print a run as it goes on; Ctrl-C cancels it, and a second one leaves it."""
        printer = MessagePrinter(self._writer())
        try:
            for event in run.events():
                printer.show(event)
        except KeyboardInterrupt:
            printer.end()
            say("Cancelling ... (Ctrl-C again does not wait for it)")
            run.cancel()
            try:
                for event in run.events():
                    printer.show(event)
            except KeyboardInterrupt:
                say(f"See how it ends: heeler runs show {run.run_id}")
                return
            say("Cancelled." if run.is_cancelled else "It had ended already.")
        finally:
            printer.end()

    def _writer(self) -> AnswerWriter:
        if sys.stdout.isatty():
            from cli.markdown_writing import MarkdownWriter

            return MarkdownWriter()
        return PlainWriter()

    def _answer_pending(self) -> None:
        """Ask about what has waited since before the session."""
        self._ask(self._answers())

    def _answers(self) -> list[dict[str, Any]]:
        """A message that answers all calls that wait; none where nothing waits, or nobody is there
        to say yes or no."""
        approvals = []
        for call in own_calls(self._server, self._agent_id):
            said = self._answer_to(f"Run {call_text(call)}?")
            if said is None:
                say("It waits: heeler approvals list")
                return []
            approvals.append(_answer(call, said.strip()))
        return [{"type": "approval", "approvals": approvals}] if approvals else []

    def _answer_to(self, question: str) -> str | None:
        """The answer to a question after it was shown; None where nobody answers it. Lines that
        were typed before, and lines of a pipe that are meant for the agent, are no answer."""
        if self._is_interactive:
            if typed := discard_typed(sys.stdin.fileno()):
                shown = f"{typed[:DISCARDED_SHOWN_MAX]!r}{'…' * (len(typed) > DISCARDED_SHOWN_MAX)}"
                warn(f"Discarded, since it was typed before this question: {shown}")
            return self._read(f"{question} [y/n or why not] ")
        warn(f"{question} [{APPROVE}, or {DENY} and why not]")
        line = self._read("")
        if line is None or line.strip().partition(" ")[0] in (APPROVE, DENY):
            return line
        self._kept.append(line)
        return None

    def _read(self, prompt: str) -> str | None:
        """A line, or all lines of a paste; None at the end. Ctrl-C empties the line."""
        if self._kept:
            return self._kept.pop()
        while True:
            try:
                if self._is_interactive:
                    # A paste has marks only where it comes while a line is read.
                    has_marks = self._has_brackets and not has_typed_line()
                    line = input(printable(prompt, sys.stdout))
                    return line if has_marks else "\n".join([line, *pasted_lines()])
                line = sys.stdin.readline()
                return line.rstrip("\n") if line else None
            except EOFError:
                write("")
                return None
            except KeyboardInterrupt:
                if not self._is_interactive:
                    raise
                say("\nCtrl-D ends the session.")

    def _show_history(self, given: str) -> None:
        limit = int(given) if given.isdecimal() and 0 < int(given) <= 200 else HISTORY_DEFAULT
        # The newest messages, the oldest of them first; of this conversation alone.
        query = {"limit": limit, "order": "desc", "conversation_id": "default"}
        printer = MessagePrinter(PlainWriter())
        for message in self._server.get(f"{self._path}/messages", **query):
            if message["message_type"] == "user_message":
                printer.end()
                write(f"> {content_text(message['content'])}")
            elif message["message_type"] != "system_message":
                printer.show(message)
        printer.end()

    def _show_memory(self, label: str) -> None:
        blocks = self._server.get(f"{self._path}/core-memory/blocks", limit=200)
        for block in sorted(blocks, key=lambda block: str(block["label"])):
            if not label:
                write(f"{block['label']}  {len(block['value'])} of {block['limit']} characters")
            elif block["label"] == label:
                write(block["value"])
        if label and label not in {block["label"] for block in blocks}:
            say(f"There is no block '{label}'")

    def _choose_model(self, handle: str) -> None:
        if handle:
            self._model = None if handle == "-" else handle
        own = self._server.get(self._path)["model"]
        say(f"Model: {self._model or own}")


def _answer(call: Mapping[str, Any], said: str) -> dict[str, Any]:
    """A yes for y, and for /approve whatever stands behind it; everything else is a no, with what
    was said as the reason."""
    word, _, rest = said.partition(" ")
    if word.lower() == DENY:
        said = rest.strip()
        approve = False
    else:
        approve = word.lower() == APPROVE or said.lower() in ("y", "yes")
    reason = None if approve or said.lower() in ("", "n", "no") else said
    given = {"type": "approval", "tool_call_id": call["tool_call_id"], "approve": approve}
    return {**given, "reason": reason}
