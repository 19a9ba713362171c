"""The form of a scenario: who is tested, what is said to it, and what is expected."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)

from libs.contracts.agent.scripted_replies import REPLIES_MAX, ScriptedReply

NAME_CHARACTERS_MAX = 200
TEXT_CHARACTERS_MAX = 100_000
PATTERN_CHARACTERS_MAX = 1_000
PATTERN_BYTES_MAX = 8 << 20  # what a compiled expression may take
TURNS_MAX = 200
EXPECTATIONS_MAX = 100
MOCKS_MAX = 100
RUN_PREFIX = "run-"

type ModelKind = Literal["scripted", "cassette", "real"]


def _one_or_many(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _pattern(pattern: str) -> str:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        re2.compile(pattern, options)
    except re2.error as problem:
        reason = problem.args[0]
        words = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"no regular expression: {words}") from problem
    return pattern


type Text = Annotated[str, Field(max_length=TEXT_CHARACTERS_MAX)]
type Pattern = Annotated[str, Field(max_length=PATTERN_CHARACTERS_MAX), AfterValidator(_pattern)]
type Texts = Annotated[
    list[Text], BeforeValidator(_one_or_many), Field(max_length=EXPECTATIONS_MAX)
]
type Patterns = Annotated[
    list[Pattern], BeforeValidator(_one_or_many), Field(max_length=EXPECTATIONS_MAX)
]


class Form(BaseModel):
    """A table of a scenario file, which has these keys and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TextExpectation(Form):
    """The conditions on a text; all that is given has to hold."""

    contains: Texts = []
    not_contains: Texts = []
    matches: Patterns = []
    equals: Text | None = None


class ExpectedCall(Form):
    """A call of a tool. `arguments` are those that matter; others may be there, too."""

    name: str
    arguments: dict[str, JsonValue] = {}
    returns: Texts = []
    status: Literal["success", "error"] | None = None


class Expectation(TextExpectation):
    """The conditions after a turn. The texts are about the agent's words in it."""

    tool_calls: Annotated[list[ExpectedCall], Field(max_length=EXPECTATIONS_MAX)] = []
    no_tool_calls: bool = False
    memory: dict[str, TextExpectation] = {}
    cost_usd_max: Annotated[float, Field(ge=0)] | None = None
    tokens_max: Annotated[int, Field(ge=0)] | None = None
    steps_max: Annotated[int, Field(ge=0)] | None = None
    stop_reason: str | None = None
    error: Text | None = None


class Turn(Form):
    """A message to the agent, or the answer to the call that it wants approved."""

    message: Text | None = None
    approve: bool | None = None
    reason: Text | None = None
    expect: Expectation = Expectation()

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.message is None) == (self.approve is None):
            raise ValueError("give either `message` or `approve`")
        return self


class Mock(Form):
    """The result of a tool that is not called, for calls with these `arguments`."""

    tool: str
    arguments: dict[str, JsonValue] = {}
    returns: JsonValue = None
    error: Text | None = None

    @model_validator(mode="after")
    def _returns_one_thing(self) -> Self:
        if (self.returns is None) == (self.error is None):
            raise ValueError("give either `returns` or `error`")
        return self


class Header(Form):
    """The table `[scenario]`. `model` is what answers; without it the replies of the file, or a
    cassette where the file has none. `cassette` is its file, or the ids of runs to give again, one
    for each turn."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    agent: str
    description: Text | None = None
    model: ModelKind | None = None
    cassette: Texts = []

    @property
    def runs(self) -> list[str]:
        """The runs whose replies are given again, if these and no file are the cassette."""
        return [run for run in self.cassette if run.startswith(RUN_PREFIX)]

    @model_validator(mode="after")
    def _names_one_cassette(self) -> Self:
        if self.cassette and not self.runs and len(self.cassette) > 1:
            raise ValueError("`cassette` is one file, or the ids of runs")
        return self


class Scenario(Form):
    """A scenario file. `memory` has values that blocks of the agent begin with."""

    scenario: Header
    turns: Annotated[list[Turn], Field(min_length=1, max_length=TURNS_MAX)]
    model: Annotated[list[ScriptedReply], Field(max_length=REPLIES_MAX)] = []
    mocks: Annotated[list[Mock], Field(max_length=MOCKS_MAX)] = []
    memory: dict[str, Text] = {}

    @property
    def kind(self) -> ModelKind:
        """Return which model answers in this scenario."""
        if self.scenario.model:
            return self.scenario.model
        return "scripted" if self.model else "cassette"
