"""`run_code_with_tools`: a program that calls the other tools of its agent, from the sandbox."""

from __future__ import annotations

from pathlib import Path

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.shortened_text import cut
from libs.contracts.tools.tool_runs import ToolRunResult
from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.engine.builtin_runner import BuiltinCall, failure
from services.tools.engine.custom_tool_runner import limits_of, usage
from services.tools.engine.inner_calls import InnerCallPorts, InnerCalls
from services.tools.engine.run_code import PART_OF_PRINTED, RunCode, error_of
from services.tools.sandbox import inner_call_prelude
from services.tools.sandbox.ports import Outcome, Program

PRELUDE = Path(inner_call_prelude.__file__).read_text(encoding="utf-8")


class RunCodeWithToolsTool:
    """Keeps the contract of `Builtin`."""

    def __init__(self, sandbox: BaseSandbox, ports: InnerCallPorts) -> None:
        self.sandbox = sandbox
        self.ports = ports

    def refusal_of(self, call: BuiltinCall) -> str:
        """Why no program can run here, or this one may not."""
        if call.command.inner:
            return "A program that calls tools cannot be called by another one"
        if not call.command.step_id:
            return "Only an agent's model runs programs that call tools"
        return self.sandbox.refusal_of(Program("python", ""))

    async def run(self, call: BuiltinCall) -> ToolRunResult:
        """The program's output and the value of its last line, as JSON in V1's form."""
        command = call.command
        asked = RunCode.model_validate({**command.arguments, "language": "python"})
        tools = {tool.name: tool.parameters for tool in command.inner_tools}
        prelude = f"{PRELUDE}\nTOOLS.update({tools!r})\n"
        program = Program(
            "python",
            asked.code,
            last_value=True,
            prelude=prelude,
            limits=limits_of(command.seconds_max),
            org=call.org,
            agent_id=command.agent_id,
        )
        refused = self.sandbox.refusal_of(program)
        if refused:
            return failure(refused)
        calls = InnerCalls(self.ports, command, call.org)
        outcome = await self.sandbox.run_calling(program, calls.answer)
        text = to_json(outcome_json(outcome, call.chars_max)).decode()
        status = "success" if outcome.status == "error" and outcome.started else outcome.status
        return ToolRunResult(status=status, text=text, called=calls.called_tools, **usage(outcome))


def outcome_json(outcome: Outcome, chars_max: int) -> JsonObject:
    """The result of a program for the model, within `chars_max`."""
    room = int(chars_max * PART_OF_PRINTED)
    value = None if outcome.value is None else cut(str(outcome.value), room)
    stderr: list[Json] = [cut(outcome.stderr, room)] if outcome.stderr else []
    result: JsonObject = {
        "status": "success",
        "func_return": value,
        "stdout": [cut(outcome.stdout, room)] if outcome.stdout else [],
        "stderr": stderr,
    }
    if outcome.status != "success":
        error = error_of(outcome, room)
        name, what, traceback = error["name"], error["value"], error["traceback"]
        printed = [*stderr, traceback] if traceback else stderr
        said = f"Error executing function run_code_with_tools: {name}: {what}"
        result |= {"status": "error", "func_return": said, "stderr": printed}
    return result
