"""The settings of the server itself."""

from __future__ import annotations

from libs.contracts.configuration.key import Key, Kind

SERVER = (
    Key(
        name="server.host",
        variable="HEELER_HOST",
        services=("api",),
        text="The address at which the API listens; any but this machine's own needs a password.",
        default="127.0.0.1",
        example="localhost",
        needs_start=True,
    ),
    Key(
        name="server.port",
        variable="HEELER_PORT",
        services=("api",),
        text="The port of the API.",
        kind=Kind.WHOLE_NUMBER,
        default=8283,
        example=8300,
        needs_start=True,
    ),
    Key(
        name="server.published_on",
        variable="HEELER_PUBLISHED_ON",
        services=("api",),
        text="In a container: the address of the machine that leads to it. Who can reach that can"
        " reach the server.",
        default_text="the host",
        example="10.0.0.5",
    ),
    Key(
        name="server.password",
        variable="HEELER_PASSWORD",
        services=("api",),
        text="What clients send as `Authorization: Bearer` or `X-BARE-PASSWORD: password ...`.",
        aliases=("LETTA_SERVER_PASSWORD",),
        example="a long password",
        secret=True,
    ),
    Key(
        name="server.cors_origins",
        variable="HEELER_CORS_ORIGINS",
        services=("api",),
        text="Which web pages may call the API from a browser: origins such as"
        " `https://app.example`; `local` is every page on this machine, `*` (with a password) every"
        " page.",
        kind=Kind.LIST,
        default=["local"],
        example=["https://app.example", "local"],
    ),
    Key(
        name="server.http_connections_max",
        variable="HEELER_HTTP_CONNECTIONS_MAX",
        services=("api",),
        text="How many connections one process of the API has open at once.",
        kind=Kind.WHOLE_NUMBER,
        default=2000,
        example=100,
    ),
    Key(
        name="server.ping_seconds",
        variable="HEELER_PING_SECONDS",
        services=("api",),
        text="After how many silent seconds a stream sends a ping.",
        kind=Kind.NUMBER,
        default=20.0,
        example=5.0,
    ),
    Key(
        name="server.log_level",
        variable="HEELER_LOG_LEVEL",
        text="How much is logged; logs are JSON lines in the folder `logs` of the home.",
        default="info",
        choices=("debug", "info", "warning", "error", "critical"),
        example="debug",
    ),
    Key(
        name="server.erase_after_hours",
        variable="HEELER_ERASE_AFTER_HOURS",
        text="How long what was deleted stays in the event log: see"
        " [operations](operations.md#deleting).",
        kind=Kind.WHOLE_NUMBER,
        default=72,
        example=24,
    ),
    Key(
        name="server.encryption_keys",
        variable="HEELER_ENCRYPTION_KEYS",
        services=("tools", "api"),
        text="The keys that seal secrets, the one that seals first, then older ones that only"
        " open: see [security](security.md).",
        kind=Kind.LIST,
        default_text="those of the home",
        example=["YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="],
        secret=True,
    ),
    Key(
        name="server.processes",
        variable="HEELER_PROCESSES",
        text="`one`: all services in one process, for small machines: see"
        " [operations](operations.md).",
        default="each",
        choices=("each", "one"),
        example="one",
        needs_start=True,
    ),
    Key(
        name="server.replicas",
        variable="HEELER_REPLICAS",
        text="Processes of each service; all API processes answer on the one port.",
        kind=Kind.WHOLE_NUMBER,
        default=1,
        example=2,
        needs_start=True,
    ),
    Key(
        name="server.frozen_seconds_max",
        variable="HEELER_FROZEN_SECONDS_MAX",
        text="A process that gives no sign of life for so long is replaced: see"
        " [operations](operations.md).",
        kind=Kind.NUMBER,
        default=6.0,
        example=20.0,
        needs_start=True,
    ),
)
