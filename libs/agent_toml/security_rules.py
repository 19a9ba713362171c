"""The security rules of files, as data: what each looks at, how bad it is where, why, and the fix.

An operator may have rules of their own beside these, and other severities for these (`own_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from libs.agent_toml import limit_detectors, text_detectors, tool_detectors
from libs.agent_toml.security_subject import Finding, Subject
from libs.agent_toml.tables import ENVIRONMENTS, Environment

RuleSeverity = Literal["error", "warning", "off"]

type Detector = Callable[[Subject], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class SecurityRule:
    """One rule, with its severity in each environment; `off` means that it is not looked for."""

    id: str
    title: str
    detector: Detector
    severities: Mapping[str, RuleSeverity]
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that hold, in their order. `environment` is one that holds whatever files say."""

    rules: Sequence[SecurityRule] = field(default_factory=tuple)
    environment: Environment | None = None


def _severities(*in_order: RuleSeverity) -> Mapping[str, RuleSeverity]:
    """The severities in development, in staging and in production."""
    return dict(zip(ENVIRONMENTS, in_order, strict=True))


BUILT_IN = (
    SecurityRule(
        "SEC001",
        "A secret stands in the file",
        text_detectors.secrets_in_texts,
        _severities("error", "error", "error"),
        "Files are copied and kept in version control: everybody who reads one has the key.",
        "Have the key revoked, and write `${NAME}` in `[secrets]`, a header or `env`.",
    ),
    SecurityRule(
        "SEC002",
        "A header or a variable for a secret has a plain value",
        text_detectors.plain_values,
        _severities("error", "error", "error"),
        "By its name it is a secret, and its value stands in the file.",
        "Write the name of an environment variable: `${NAME}`.",
    ),
    SecurityRule(
        "SEC003",
        "A tool needs what the file does not declare",
        tool_detectors.undeclared_needs,
        _severities("off", "warning", "error"),
        "Tools that run code, read files or reach the network are declared, so that a review of "
        "the file shows them and nothing else can be called.",
        "Add `[permissions]` with the `capabilities` that its tools need, or take the tool out.",
    ),
    SecurityRule(
        "SEC004",
        "A tool can never be called",
        tool_detectors.needs_that_are_withheld,
        _severities("warning", "error", "error"),
        "`[permissions]` withholds what the tool needs: the file says two things.",
        "Add the capability to `[permissions]`, or take the tool out.",
    ),
    SecurityRule(
        "SEC005",
        "A tool that runs programs needs no approval",
        tool_detectors.unapproved_programs,
        _severities("off", "warning", "error"),
        "What the model reads may tell it to run anything; a person looks at each call first.",
        "Add a `[[tool_rules]]` of the type `requires_approval` for it.",
    ),
    SecurityRule(
        "SEC006",
        "The source of a tool starts programs",
        tool_detectors.detector_of("programs", "it starts programs", unless_approved=True),
        _severities("warning", "warning", "error"),
        "`subprocess`, `os.system` and the like run whatever they are given.",
        "Call a library instead, or set `requires_approval = true`.",
    ),
    SecurityRule(
        "SEC007",
        "The source of a tool evaluates text as code",
        tool_detectors.detector_of("evaluation", "it runs text as code"),
        _severities("warning", "error", "error"),
        "`eval` and `exec` run whatever the model, or what it has read, puts in.",
        "Parse the text: `json.loads`, `ast.literal_eval`.",
    ),
    SecurityRule(
        "SEC008",
        "The source of a tool hides what it runs",
        tool_detectors.detector_of("hiding", "it runs what it hides"),
        _severities("error", "error", "error"),
        "Code that is decoded and then run cannot be reviewed.",
        "Write the code itself.",
    ),
    SecurityRule(
        "SEC009",
        "The source of a tool reads the secrets of the machine",
        tool_detectors.sources_that_read_secrets,
        _severities("error", "error", "error"),
        "It reads keys, password files, the whole environment, or the metadata of a cloud.",
        "Name the one secret that it needs in `[secrets]`, and read that variable alone.",
    ),
    SecurityRule(
        "SEC010",
        "The source of a tool opens sockets",
        tool_detectors.detector_of("sockets", "it opens sockets", unless_approved=True),
        _severities("warning", "warning", "error"),
        "A raw socket goes around what guards addresses, and can listen.",
        "Use an HTTP client, or set `requires_approval = true`.",
    ),
    SecurityRule(
        "SEC011",
        "The source of a tool loads objects from bytes",
        tool_detectors.detector_of("unpickling", "it loads objects from bytes"),
        _severities("warning", "warning", "error"),
        "`pickle` and `marshal` run code that is in the bytes.",
        "Use JSON.",
    ),
    SecurityRule(
        "SEC012",
        "An MCP server is a shell",
        tool_detectors.mcp_shells,
        _severities("error", "error", "error"),
        "A shell runs any command: the file could start anything on the machine of the server.",
        "Name the program itself, with its arguments as a list.",
    ),
    SecurityRule(
        "SEC013",
        "An MCP server is fetched when it starts",
        tool_detectors.mcp_fetched_programs,
        _severities("warning", "error", "error"),
        "`npx`, `uvx` and the like run what somebody has published meanwhile.",
        "Install the program, and name its absolute path.",
    ),
    SecurityRule(
        "SEC014",
        "An address is not encrypted",
        text_detectors.plain_http,
        _severities("warning", "warning", "error"),
        "Tokens, prompts and answers can be read and changed on their way.",
        "Use https://.",
    ),
    SecurityRule(
        "SEC015",
        "An address is that of the machine's cloud",
        text_detectors.metadata_addresses,
        _severities("error", "error", "error"),
        "The metadata service of a cloud hands out the keys of the machine.",
        "Take the address out.",
    ),
    SecurityRule(
        "SEC016",
        "A text is a known attack on models",
        text_detectors.injections,
        _severities("warning", "error", "error"),
        "It tells the model to ignore its instructions, to reveal its prompt, or to have no rules.",
        "Take the sentence out. To defend against it, say what the agent must never do.",
    ),
    SecurityRule(
        "SEC017",
        "A text has invisible characters",
        text_detectors.invisible_characters,
        _severities("error", "error", "error"),
        "Models read what people who review the file do not see.",
        "Remove the characters.",
    ),
    SecurityRule(
        "SEC018",
        "An MCP server may ask the agent's model",
        tool_detectors.sampling,
        _severities("off", "warning", "error"),
        "The server spends your tokens with prompts of its own.",
        "Set `sampling = false`.",
    ),
    SecurityRule(
        "SEC019",
        "A package has no version",
        tool_detectors.unpinned_packages,
        _severities("off", "off", "warning"),
        "Another version may do something else, or be somebody else's.",
        "Write `name==version`.",
    ),
    SecurityRule(
        "SEC020",
        "A schedule fires more often than every five minutes",
        limit_detectors.frequent_schedules,
        _severities("off", "warning", "warning"),
        "Each firing costs tokens, by day and by night.",
        "Use a longer interval.",
    ),
    SecurityRule(
        "SEC021",
        "A hidden agent acts by itself",
        limit_detectors.hidden_schedules,
        _severities("off", "warning", "error"),
        "Lists do not show it, and nobody asks it: nobody notices what it does.",
        "Set `hidden = false`, or remove its schedules.",
    ),
    SecurityRule(
        "SEC022",
        "A limit leaves no room for the conversation",
        limit_detectors.output_without_room,
        _severities("warning", "error", "error"),
        "An answer may be as long as all that the model is shown.",
        "Lower `max_output_tokens`, or raise `context_window`.",
    ),
    SecurityRule(
        "SEC023",
        "A schedule may take very many steps",
        limit_detectors.many_steps,
        _severities("off", "warning", "error"),
        "Nobody waits for the answer, so nobody stops an agent that goes in circles.",
        "Lower `max_steps` to at most 200.",
    ),
)
DEFAULT_RULES = RuleSet(BUILT_IN)
