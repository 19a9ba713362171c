"""Wrapper around the code of JavaScript tools, so that Node gives back what they return."""

from __future__ import annotations

import json

from libs.contracts.bus_messages import JsonObject

CALLED = """
;(async () => {
  const program = JSON.parse(process.env.PROGRAM); delete process.env.PROGRAM;
  const value = program.function ? await eval(program.function)(program.arguments) : undefined;
  let text; try { text = JSON.stringify(value === undefined ? null : value); }
  catch { text = JSON.stringify(String(value)); }
  require("fs").writeFileSync(program.result, text ?? JSON.stringify(String(value)));
})().catch((error) => { console.error(error); process.exit(1); });
"""
# A script with `await` outside of functions is none for an interactive interpreter.
SHOWN = """
const vm = require("vm"), filename = "code.js", source = SOURCE;
const program = JSON.parse(process.env.PROGRAM); delete process.env.PROGRAM;
Object.assign(globalThis, { require, module, exports });
(async () => {
  let value;
  try {
    value = await vm.runInThisContext(source, { filename });
  } catch (error) {
    if (!(error instanceof SyntaxError) || !/await/.test(error.message)) throw error;
    value = await vm.runInThisContext(`(async () => {${source}\n})()`, { filename });
  }
  if (value === undefined) return;
  const text = require("util").inspect(value, { depth: 4, breakLength: 100 });
  require("fs").writeFileSync(program.result, JSON.stringify(text));
})().catch((error) => { console.error(error); process.exit(1); });
"""

# Of a module with types; the function is one of its own, exported or not.
TYPED = """
;import { writeFileSync as writeResult } from "node:fs";
const valueOfTool = await NAME(VALUES);
writeResult(JSON.parse(process.env.PROGRAM ?? "{}").result,
  JSON.stringify(valueOfTool === undefined ? null : valueOfTool) ?? "null");
"""


def typed_call(source: str, function: str, arguments: JsonObject) -> str:
    """The module that calls a function of a TypeScript source, with the arguments in their order;
    what is null counts as left out."""
    if not function:
        return source
    values = [
        "undefined" if argument is None else json.dumps(argument) for argument in arguments.values()
    ]
    return source + TYPED.replace("NAME", function, 1).replace("VALUES", ", ".join(values), 1)


def script_call(source: str) -> str:
    """The script that calls a function of a source."""
    return source + CALLED


def script_value(source: str) -> str:
    """The script that runs a source, and gives back what its last line says."""
    return SHOWN.replace("SOURCE", json.dumps(source), 1)
