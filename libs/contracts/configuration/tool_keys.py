"""The settings of tools, of MCP servers, and of searches in the web."""

from __future__ import annotations

from libs.contracts.configuration.key import Key, Kind

TOOLS = (
    Key(
        name="tools.sandbox",
        variable="HEELER_SANDBOX",
        text="How the code of tools runs: in namespaces; `container`: in containers;"
        " `process-unconfined`: without walls; `off`: not at all. See [sandbox](sandbox.md).",
        default="process",
        choices=("process", "process-unconfined", "container", "off"),
        example="off",
    ),
    Key(
        name="tools.sandbox_image",
        variable="HEELER_SANDBOX_IMAGE",
        text="The image of these containers, which must be there.",
        default="python:3.12-slim",
        example="python:3.13-slim",
    ),
    Key(
        name="tools.sandbox_network",
        variable="HEELER_SANDBOX_NETWORK",
        text="The network of these containers.",
        default="none",
        example="bridge",
    ),
    Key(
        name="tools.run_code_seconds",
        variable="HEELER_RUN_CODE_SECONDS",
        text="How long `run_code` may take, 300 at most.",
        kind=Kind.WHOLE_NUMBER,
        default=30,
        example=60,
    ),
    Key(
        name="tools.workspaces_folder",
        variable="HEELER_WORKSPACES",
        text="Where the folders of agents with `shell` or file tools are.",
        kind=Kind.PATH,
        default_text="`workspaces` in the home",
        example="workspaces",
    ),
    Key(
        name="tools.allowed",
        variable="HEELER_ALLOWED_TOOLS",
        text="The only tools that agents may call, by name or id: see [security](security.md). An"
        " empty list allows none.",
        kind=Kind.LIST,
        default_text="all",
        example=["send_message", "web_search"],
        words_for_empty="none",
    ),
    Key(
        name="tools.allowed_capabilities",
        variable="HEELER_ALLOWED_CAPABILITIES",
        text="The only capabilities that tools may need: see [security](security.md). An empty"
        " list allows none.",
        kind=Kind.LIST,
        default_text="all",
        example=["network"],
        words_for_empty="none",
    ),
    Key(
        name="tools.packages.enabled",
        variable="HEELER_PACKAGES",
        text="Whether tools may have packages: see [sandbox](sandbox.md).",
        kind=Kind.YES_OR_NO,
        default=True,
        example=False,
        words_for_yes_and_no=("1", "0"),
    ),
    Key(
        name="tools.packages.folder",
        variable="HEELER_PACKAGES_FOLDER",
        text="Where the packages of tools are kept.",
        kind=Kind.PATH,
        default_text="`packages` in the home",
        example="packages",
    ),
    Key(
        name="tools.packages.mib_max",
        variable="HEELER_PACKAGES_MB",
        text="How many MiB they may take.",
        kind=Kind.WHOLE_NUMBER,
        default=4096,
        example=512,
    ),
    Key(
        name="tools.packages.allowed",
        variable="HEELER_PACKAGES_ALLOWED",
        text="The only packages that tools may have. An empty list allows none.",
        kind=Kind.LIST,
        default_text="all",
        example=["requests"],
        words_for_empty=",",
    ),
    Key(
        name="tools.packages.denied",
        variable="HEELER_PACKAGES_DENIED",
        text="Packages that tools may not have.",
        kind=Kind.LIST,
        example=["left-pad"],
        words_for_empty="",
    ),
    Key(
        name="tools.packages.index",
        variable="HEELER_PACKAGE_INDEX",
        text="Where packages come from: an index, or a folder of wheels.",
        default_text="PyPI",
        example="https://pypi.example/simple",
    ),
    Key(
        name="tools.packages.hosts",
        variable="HEELER_PACKAGE_HOSTS",
        text="Private hosts that packages may come from.",
        kind=Kind.LIST,
        example=["pypi.example.lan"],
        words_for_empty="",
    ),
)
MCP = (
    Key(
        name="mcp.servers_file",
        variable="HEELER_MCP_CONFIG",
        text="A TOML file of MCP servers that are there from the start: see [MCP](mcp.md).",
        kind=Kind.PATH,
        example="mcp-servers.toml",
    ),
    Key(
        name="mcp.commands_file",
        variable="HEELER_MCP_COMMANDS",
        text="A TOML file of the programs that may be MCP servers: see [MCP](mcp.md).",
        kind=Kind.PATH,
        example="mcp-commands.toml",
    ),
    Key(
        name="mcp.connect_seconds_max",
        variable="HEELER_MCP_CONNECT_SECONDS_MAX",
        text="How long an MCP server may take to say hello.",
        kind=Kind.NUMBER,
        default=30.0,
        example=5.0,
    ),
    Key(
        name="mcp.list_seconds_max",
        variable="HEELER_MCP_LIST_SECONDS_MAX",
        text="How long it may take to list what it offers.",
        kind=Kind.NUMBER,
        default=30.0,
        example=5.0,
    ),
    Key(
        name="mcp.call_seconds_max",
        variable="HEELER_MCP_CALL_SECONDS_MAX",
        text="How long it may take for a call.",
        kind=Kind.NUMBER,
        default=300.0,
        example=60.0,
    ),
    Key(
        name="mcp.sampling_tokens_max",
        variable="HEELER_MCP_SAMPLING_TOKENS_MAX",
        text="How many tokens an answer may have that an MCP server gets of an agent's model,"
        " where it may ask.",
        kind=Kind.WHOLE_NUMBER,
        default=4096,
        example=1000,
    ),
)
WEB_SEARCH = (
    Key(
        name="web_search.provider",
        variable="HEELER_WEB_SEARCH",
        text="Who searches.",
        default_text="by the key that there is",
        choices=("exa", "tavily"),
        example="tavily",
    ),
    Key(
        name="web_search.url",
        variable="HEELER_WEB_SEARCH_URL",
        text="Where the provider is asked.",
        default_text="its own address",
        example="https://search.example",
    ),
    Key(
        name="web_search.exa_api_key",
        variable="EXA_API_KEY",
        text="The key of Exa; an agent's secret of the variable's name comes first.",
        example="exa-example",
        secret=True,
    ),
    Key(
        name="web_search.tavily_api_key",
        variable="TAVILY_API_KEY",
        text="The key of Tavily; an agent's secret of the variable's name comes first.",
        example="tvly-example",
        secret=True,
    ),
)
