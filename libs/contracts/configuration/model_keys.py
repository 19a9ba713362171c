"""The settings of models, and of the runs of agents."""

from __future__ import annotations

from libs.contracts.configuration.key import Key, Kind

MODELS = (
    Key(
        name="models.prices_file",
        variable="HEELER_PRICES",
        services=("agent",),
        text="A TOML file of what models cost: see [models](models.md).",
        kind=Kind.PATH,
        default_text="list prices",
        example="prices.toml",
    ),
    Key(
        name="models.openai.api_key",
        variable="OPENAI_API_KEY",
        services=("memory", "agent"),
        text="The key of OpenAI, or of what stands at its address.",
        example="sk-example",
        secret=True,
    ),
    Key(
        name="models.openai.base_url",
        variable="OPENAI_API_BASE",
        services=("memory", "agent"),
        aliases=("OPENAI_BASE_URL",),
        text="Anything that speaks OpenAI's chat completions: vLLM, LM Studio, llama.cpp, Ollama's"
        " `/v1`, OpenRouter; no key is needed if it wants none.",
        default_text="OpenAI",
        example="http://localhost:1234/v1",
    ),
    Key(
        name="models.openai.organization",
        variable="OPENAI_ORG_ID",
        services=("agent",),
        text="Which organisation, for a key that belongs to several.",
        example="org-1",
    ),
    Key(
        name="models.openai.project",
        variable="OPENAI_PROJECT_ID",
        services=("agent",),
        text="Which project, for a key that belongs to several.",
        example="proj-1",
    ),
    Key(
        name="models.anthropic.api_key",
        variable="ANTHROPIC_API_KEY",
        services=("agent",),
        text="The key of Anthropic, or of what stands at its address.",
        example="sk-ant-example",
        secret=True,
    ),
    Key(
        name="models.anthropic.base_url",
        variable="ANTHROPIC_BASE_URL",
        services=("agent",),
        text="Anything that speaks Anthropic's messages; no key is needed if it wants none.",
        default_text="Anthropic",
        example="http://localhost:1235",
    ),
    Key(
        name="models.ollama.base_url",
        variable="OLLAMA_BASE_URL",
        services=("memory", "agent"),
        text="An Ollama whose models embed texts, as `ollama/<model>`: see [memory](memory.md).",
        example="http://localhost:11434",
    ),
)
RUNS = (
    Key(
        name="runs.seconds_max",
        variable="HEELER_RUN_SECONDS_MAX",
        services=("agent",),
        text="How long a run of an agent may take from its start.",
        kind=Kind.NUMBER,
        default=1800.0,
        example=60.0,
    ),
    Key(
        name="runs.step_seconds_max",
        variable="HEELER_STEP_SECONDS_MAX",
        services=("agent",),
        text="How long one answer of a model may take in it.",
        kind=Kind.NUMBER,
        default=600.0,
        example=30.0,
    ),
    Key(
        name="runs.tool_seconds_max",
        variable="HEELER_TOOL_SECONDS_MAX",
        services=("agent",),
        text="How long one tool call may take in it.",
        kind=Kind.NUMBER,
        default=120.0,
        example=10.0,
    ),
    Key(
        name="runs.approval_seconds_max",
        variable="HEELER_APPROVAL_SECONDS_MAX",
        services=("agent",),
        text="How long calls wait for a client to approve them, or to carry them out.",
        kind=Kind.NUMBER,
        default=604800.0,
        example=3600.0,
    ),
    Key(
        name="runs.summaries_per_minute",
        variable="HEELER_SUMMARIES_PER_MINUTE",
        services=("agent",),
        text="How many summaries of its messages each agent may have in a minute.",
        kind=Kind.WHOLE_NUMBER,
        default=1,
        example=2,
    ),
    Key(
        name="runs.summaries_per_hour",
        variable="HEELER_SUMMARIES_PER_HOUR",
        services=("agent",),
        text="The same in an hour.",
        kind=Kind.WHOLE_NUMBER,
        default=10,
        example=20,
    ),
)
