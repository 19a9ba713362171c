"""Every code that a problem of a file may have: what it means and how to mend it.

The page `docs/agent-errors.md` is generated from it. A code is never given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The meaning of a code: a title, the reason why it is a problem, and the fix."""

    title: str
    explanation: str
    fix: str


CATALOGUE: dict[str, ProblemKind] = {
    # The text of the file
    "AGT001": ProblemKind(
        "The file is no TOML",
        "The reader of TOML stopped here; what comes after this place was not looked at.",
        "Mend this place and check again. Texts stand in quotes, long ones in three.",
    ),
    "AGT002": ProblemKind(
        "The file is too large or too deep",
        "A file has at most 4 MiB, 100,000 values and 32 levels of tables and lists, and the files "
        "beside it have at most 4 MiB together, each as often as it is named.",
        "Put long texts into files of their own: `system_prompt_file`, `value_file`, `file`.",
    ),
    "AGT003": ProblemKind(
        "The file is no UTF-8",
        "TOML is UTF-8; a file that begins with the mark of UTF-16 is read as that.",
        "Save the file as UTF-8.",
    ),
    "AGT004": ProblemKind(
        "The file cannot be read",
        "There is no such file, or it may not be read.",
        "Correct the path, or the rights of the file.",
    ),
    # The form
    "AGT101": ProblemKind(
        "A key is missing", "The table cannot do without this key.", "Add the key."
    ),
    "AGT102": ProblemKind(
        "A key is unknown",
        "There is no such key in this table. It would have no effect, so it is refused.",
        "Correct its name, or take it out. The reference lists all keys.",
    ),
    "AGT103": ProblemKind(
        "A value has the wrong type",
        "The key takes another type of value.",
        "Give a value of the expected type.",
    ),
    "AGT104": ProblemKind(
        "A value is over its limit",
        "The server refuses what is longer or larger.",
        "Shorten it, or make it smaller.",
    ),
    "AGT105": ProblemKind(
        "A value is not one of those that the key takes",
        "The key takes one of a few words.",
        "Use one of them.",
    ),
    "AGT106": ProblemKind(
        "A value has the wrong form",
        "The value does not look as it has to.",
        "Write it in the expected form.",
    ),
    "AGT107": ProblemKind(
        "A value cannot be kept",
        "JSON has no times, no infinite numbers and no NUL, and the server keeps JSON.",
        "Write it as a text, or leave it out.",
    ),
    "AGT108": ProblemKind(
        "A value is empty or too small", "The server refuses it.", "Give a longer or larger value."
    ),
    # What does not go together
    "AGT201": ProblemKind(
        "A name stands there twice",
        "Both could be meant by it.",
        "Rename or remove one of the two.",
    ),
    "AGT202": ProblemKind(
        "A text is longer than the limit of its block",
        "A block never has more characters than its `limit`.",
        "Shorten the value, or raise the limit.",
    ),
    "AGT203": ProblemKind(
        "Two keys exclude each other",
        "Both say the same thing, or one has no effect beside the other.",
        "Keep one of them.",
    ),
    "AGT204": ProblemKind(
        "One of several keys is missing", "The table needs one of them.", "Add one of them."
    ),
    "AGT205": ProblemKind(
        "A file that is named does not exist or cannot be read",
        "Paths count from the folder of this file and do not leave it.",
        "Correct the path, or put the file there.",
    ),
    "AGT206": ProblemKind(
        "A schedule says no usable time",
        "The server could never fire it.",
        "Use `at` with an ISO 8601 time, `every` as in `15m`, or `cron` as in `0 9 * * mon-fri`.",
    ),
    "AGT207": ProblemKind(
        "A time zone does not exist",
        "Zones have IANA names.",
        "Use a name such as `Europe/Berlin`.",
    ),
    "AGT208": ProblemKind(
        "A tool rule names a tool that the agent does not have",
        "The rule would never apply.",
        "Add the tool to `tools`, or correct its name.",
    ),
    "AGT209": ProblemKind(
        "A key has no effect here",
        "It belongs to another type, provider or action.",
        "Take it out, or change the type.",
    ),
    "AGT210": ProblemKind(
        "The source of a tool cannot be used",
        "It is no Python that can be parsed, or has no function.",
        "Mend the source. The last function at the top level is the tool.",
    ),
    "AGT211": ProblemKind(
        "Secrets are named by environment variables",
        "The value of a secret would stand in the file, for everybody who reads it.",
        'Write the name of a variable: `TOKEN = "${ADA_TOKEN}"`.',
    ),
    "AGT212": ProblemKind(
        "The settings of the model have no provider",
        "Which settings there are depends on the provider.",
        "Add `provider_type` to `[model_settings]`.",
    ),
    "AGT213": ProblemKind(
        "The agent has no room for something",
        "The whole of an agent has a size, too.",
        "Shorten its longest texts.",
    ),
    "AGT214": ProblemKind(
        "An environment variable is not set",
        "The file names it as `${NAME}`, and it is not set where the file is applied.",
        "Set the variable, or correct its name.",
    ),
    "AGT215": ProblemKind(
        "Two files describe one agent",
        "Agents are known by their names: one file would undo what the other does.",
        "Rename one of them, or take one out.",
    ),
    # What the server does not have
    "AGT301": ProblemKind(
        "The server has no such model",
        "An agent cannot be made with it.",
        "Use a model of `heeler doctor`, or give the server its provider.",
    ),
    "AGT302": ProblemKind(
        "The server has no such tool",
        "An agent cannot be made with it.",
        "Correct its name, or describe it as `[[tool]]`.",
    ),
    "AGT303": ProblemKind(
        "The server has no such folder",
        "An agent cannot be made with it.",
        "Correct its name, or make the folder first.",
    ),
    "AGT304": ProblemKind(
        "The model is shown fewer tokens than that",
        "The context window is larger than that of the model.",
        "Lower `context_window`.",
    ),
    "AGT305": ProblemKind(
        "The operator does not allow a tool",
        "HEELER_ALLOWED_TOOLS or HEELER_ALLOWED_CAPABILITIES withholds it: it could not be called.",
        "Take the tool out, or ask the operator.",
    ),
    # What is allowed and may be a mistake
    "AGT401": ProblemKind(
        "The agent has no description",
        "Groups and people choose agents by their descriptions.",
        "Add `description`.",
    ),
    "AGT402": ProblemKind(
        "A block is nearly full",
        "The agent can hardly add anything to it.",
        "Raise its limit, or shorten the value.",
    ),
    "AGT403": ProblemKind(
        "A block has no description",
        "The agent learns from it what the block is for.",
        "Add `description`.",
    ),
    "AGT404": ProblemKind(
        "No model is named",
        "It gets the first model that its server lists, and another server may list another.",
        "Add `model`.",
    ),
    "AGT405": ProblemKind(
        "The prompt is very long",
        "It is sent with each step, and leaves less room for the conversation.",
        "Put what the agent may look up into a block, an archive or a folder.",
    ),
    "AGT406": ProblemKind(
        "The time of a schedule is past",
        "The server refuses to make such a schedule anew.",
        "Give a time in the future, or take it out.",
    ),
}
