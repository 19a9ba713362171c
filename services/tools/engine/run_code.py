"""`run_code`: a program that a model wrote, in a sandbox of its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel
from pydantic_core import to_json

from libs.contracts.bus_messages import JsonObject
from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import ToolRunResult
from services.tools.engine.builtin_runner import BuiltinCall, failure
from services.tools.engine.custom_tool_runner import limits_of, usage
from services.tools.sandbox.ports import Outcome, Program, Sandbox

CODE_BYTES_MAX = 1 << 20
# How a language may be called, and how the sandbox calls it.
LANGUAGES = {
    "python": "python",
    "js": "javascript",
    "javascript": "javascript",
    "ts": "typescript",
    "typescript": "typescript",
    "shell": "shell",
    "bash": "shell",
    "sh": "shell",
}
OFFERED = ("python", "js", "ts", "shell")
# Of the result; the rest is for its frame, and what strings grow by as JSON.
PART_OF_PRINTED = 0.3


def fitting(code: str) -> str:
    """The code, unless it is too long."""
    size = len(code.encode("utf-8", "surrogatepass"))
    if size > CODE_BYTES_MAX:
        raise ValueError(f"it has {size} bytes, and may have {CODE_BYTES_MAX}")
    return code


class RunCode(BaseModel):
    """The arguments of `run_code`."""

    code: Annotated[str, AfterValidator(fitting)]
    language: str


class RunCodeTool:
    """Keeps the contract of `Builtin`."""

    def __init__(self, sandbox: Sandbox, *, seconds_max: float) -> None:
        self.sandbox = sandbox
        self.seconds_max = seconds_max

    def refusal_of(self, call: BuiltinCall) -> str:
        """Why no code runs here at all."""
        return self.sandbox.refusal_of(Program("python", ""))

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The code's output and the value of its last line, as JSON."""
        asked = RunCode.model_validate(call.command.arguments)
        language = LANGUAGES.get(asked.language.lower())
        if language is None:
            known = ", ".join(self.languages())
            return failure(f"There is no {asked.language!r} on this server: it runs {known}.")
        program = Program(
            language,
            asked.code,
            last_value=language in ("python", "javascript"),
            limits=limits_of(min(call.command.seconds_max, self.seconds_max)),
            org=call.org,
            agent_id=call.command.agent_id,
        )
        refused = self.sandbox.refusal_of(program)
        if refused:
            return failure(f"{refused}. This server runs {', '.join(self.languages())}.")
        outcome = await self.sandbox.run(program)
        text = to_json(outcome_json(outcome, call.chars_max)).decode()
        # That the code failed is what it says, not what became of the call.
        status = "success" if outcome.status == "error" and outcome.started else outcome.status
        return ToolRunResult(status=status, text=text, **usage(outcome))

    def languages(self) -> list[str]:
        """What runs on this server."""
        return [
            name for name in OFFERED if not self.sandbox.refusal_of(Program(LANGUAGES[name], ""))
        ]


def outcome_json(outcome: Outcome, chars_max: int) -> JsonObject:
    """The result of code in V1's form, within `chars_max`."""
    room = int(chars_max * PART_OF_PRINTED)
    result: JsonObject = {
        "results": [] if outcome.value is None else [cut(str(outcome.value), room)],
        "logs": {
            "stdout": [cut(outcome.stdout, room)] if outcome.stdout else [],
            "stderr": [cut(outcome.stderr, room)] if outcome.stderr else [],
        },
    }
    if outcome.status != "success":
        result["error"] = error_of(outcome, room)
    return result


def error_of(outcome: Outcome, chars_max: int) -> JsonObject:
    """Why code did not succeed: the exception that it raised, or what became of it."""
    reason = outcome.reason.strip()
    if outcome.status == "timeout":
        return {"name": "TimeoutError", "value": reason, "traceback": ""}
    if "\n" not in reason:
        name = "Killed" if outcome.status == "killed" else "Error"
        return {"name": name, "value": reason, "traceback": ""}
    name, _, value = reason.rpartition("\n")[2].partition(": ")
    return {"name": name, "value": value, "traceback": cut(reason, chars_max)}
