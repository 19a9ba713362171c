"""The settings of files, what is new, private hosts and telemetry."""

from __future__ import annotations

from libs.contracts.configuration.key import Key, Kind

FILES = (
    Key(
        name="files.file_mib_max",
        variable="HEELER_FILE_MIB_MAX",
        services=("api",),
        text="How large an uploaded file may be: see [files](files.md).",
        kind=Kind.WHOLE_NUMBER,
        default=512,
        example=64,
    ),
    Key(
        name="files.organisation_mib_max",
        variable="HEELER_FILES_MIB_MAX",
        services=("api",),
        text="How large all files of an organisation may be.",
        kind=Kind.WHOLE_NUMBER,
        default=10240,
        example=1024,
    ),
)
HOSTS = ["tools.example.lan", "localhost:9000"]
DEFAULTS = (
    Key(
        name="defaults.embedding",
        variable="HEELER_DEFAULT_EMBEDDING",
        services=("api",),
        text="The handle of the model that embeds for new agents, archives and folders, where the"
        " request names none.",
        aliases=("LETTA_DEFAULT_EMBEDDING_HANDLE",),
        default_text="none for agents, the bundled model for archives and folders",
        example="openai/text-embedding-3-small",
    ),
    Key(
        name="defaults.block_limit_chars",
        variable="HEELER_DEFAULT_BLOCK_LIMIT_CHARS",
        services=("api",),
        text="The limit of new memory blocks, in characters, where the request has none.",
        kind=Kind.WHOLE_NUMBER,
        default=100_000,
        example=5_000,
    ),
)
NETWORK = (
    Key(
        name="network.callback_hosts",
        variable="HEELER_CALLBACK_HOSTS",
        services=("agent",),
        text="Private hosts that `callback_url` may name, as `host` or `host:port`.",
        kind=Kind.LIST,
        example=HOSTS,
        words_for_empty="",
    ),
    Key(
        name="network.mcp_hosts",
        variable="HEELER_MCP_HOSTS",
        services=("tools",),
        text="Private hosts where MCP servers may be.",
        kind=Kind.LIST,
        example=HOSTS,
        words_for_empty="",
    ),
    Key(
        name="network.fetch_hosts",
        variable="HEELER_FETCH_HOSTS",
        services=("tools",),
        text="Private hosts whose pages `fetch_webpage` may fetch.",
        kind=Kind.LIST,
        example=HOSTS,
        words_for_empty="",
    ),
    Key(
        name="network.embedding_hosts",
        variable="HEELER_EMBEDDING_HOSTS",
        services=("memory",),
        text="Private hosts that an `embedding_config` of a client may name.",
        kind=Kind.LIST,
        example=HOSTS,
        words_for_empty="",
    ),
)
TELEMETRY = (
    Key(
        name="telemetry.endpoint",
        variable="OTEL_EXPORTER_OTLP_ENDPOINT",
        aliases=("LETTA_OTEL_EXPORTER_OTLP_ENDPOINT",),
        text="Where spans are sent: see [telemetry](telemetry.md).",
        example="http://localhost:4318",
    ),
    Key(
        name="telemetry.traces_endpoint",
        variable="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        text="The same as a full address.",
        example="http://localhost:4318/v1/traces",
    ),
    Key(
        name="telemetry.service_name",
        variable="OTEL_SERVICE_NAME",
        text="As which service spans are sent.",
        default_text="`heeler-` and the service",
        example="assistants",
    ),
    Key(
        name="telemetry.capture_content",
        variable="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        text="Whether spans hold what people and models said.",
        kind=Kind.YES_OR_NO,
        default=False,
        example=True,
    ),
    Key(
        name="telemetry.traces_exporter",
        variable="OTEL_TRACES_EXPORTER",
        text="With `none` no spans are sent.",
        default="otlp",
        choices=("otlp", "none"),
        example="none",
    ),
    Key(
        name="telemetry.disabled",
        variable="OTEL_SDK_DISABLED",
        text="Whether all of it is off.",
        kind=Kind.YES_OR_NO,
        default=False,
        example=True,
    ),
)
