"""The environment of the api, frozen at start."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.contracts.environment_parsing import (
    WrongSetting,
    host,
    origins,
    seconds,
    whole_number,
    wrong,
)
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS
from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX
from libs.contracts.listening_address import HOST_DEFAULT, is_loopback, port

CONNECTIONS_MAX_DEFAULT = 2_000
CONNECTIONS_MAX_MOST = 1_000_000
DESCRIPTOR_MOST = 1_000_000
PING_SECONDS_DEFAULT = 20.0
MIB = 1 << 20
FILE_BYTES_MAX_DEFAULT = 512 * MIB
FILES_BYTES_MAX_DEFAULT = 10_240 * MIB
MIB_MOST = 100_000_000
DEFAULT_EMBEDDING = ("HEELER_DEFAULT_EMBEDDING", "LETTA_DEFAULT_EMBEDDING_HANDLE")
DEFAULT_BLOCK_LIMIT = "HEELER_DEFAULT_BLOCK_LIMIT_CHARS"
HANDLE = re.compile(r"[^/\s]+/\S+")
CONFIGURATION_STATE = "HEELER_CONFIGURATION_STATE"
LOCAL_ORIGINS, ANY_ORIGIN = "local", "*"


class UnsafeSettings(WrongSetting):
    """Starting like this would let anybody in."""


@dataclass(frozen=True, slots=True)
class CreationDefaults:
    """The embedding model, by its handle, of new agents, archives and folders (empty: none, or the
    bundled one), and the limit of new blocks, where the request does not say."""

    embedding: str = ""
    block_limit_chars: int = BLOCK_LIMIT_CHARS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> CreationDefaults:
        """HEELER_DEFAULT_EMBEDDING or LETTA_DEFAULT_EMBEDDING_HANDLE, and
        HEELER_DEFAULT_BLOCK_LIMIT_CHARS. Raises WrongSetting."""
        return cls(
            next(filter(None, (handle(environment, name) for name in DEFAULT_EMBEDDING)), ""),
            whole_number(
                environment, DEFAULT_BLOCK_LIMIT, BLOCK_LIMIT_CHARS, most=BLOCK_VALUE_CHARS_MAX
            ),
        )


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where the api listens, who and how many may come in, and after which silence a stream sends
    a ping.

    With a listen descriptor the socket is open already, and other replicas accept from it too.
    """

    host: str
    port: int
    password: str | None
    ping_seconds: float
    listen_descriptor: int | None = None
    connections_max: int = CONNECTIONS_MAX_DEFAULT
    file_bytes_max: int = FILE_BYTES_MAX_DEFAULT
    files_bytes_max: int = FILES_BYTES_MAX_DEFAULT
    cors_origins: tuple[str, ...] = (LOCAL_ORIGINS,)
    configuration_state: str = ""
    defaults: CreationDefaults = field(default_factory=CreationDefaults)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ApiSettings:
        """HEELER_HOST, HEELER_PORT, HEELER_PASSWORD or LETTA_SERVER_PASSWORD,
        HEELER_PING_SECONDS, HEELER_LISTEN_DESCRIPTOR, HEELER_HTTP_CONNECTIONS_MAX,
        HEELER_FILE_MIB_MAX, HEELER_FILES_MIB_MAX and HEELER_CORS_ORIGINS. In a
        container HEELER_PUBLISHED_ON is the address of the machine that leads to it: who can
        reach that can reach us. HEELER_CONFIGURATION_STATE is the file of the supervisor.

        Raises WrongSetting; UnsafeSettings for an address that others can reach, or for pages of
        every web site, without a password.
        """
        bound_to = host(environment, "HEELER_HOST", HOST_DEFAULT)
        password = environment.get("HEELER_PASSWORD") or environment.get("LETTA_SERVER_PASSWORD")
        reached_at = host(environment, "HEELER_PUBLISHED_ON", bound_to)
        if not password and not is_loopback(reached_at):
            raise UnsafeSettings(
                f"HEELER_HOST={reached_at} can be reached from other machines, and there is no"
                " password: set HEELER_PASSWORD, or listen on 127.0.0.1"
            )
        allowed = origins(environment, "HEELER_CORS_ORIGINS", (LOCAL_ORIGINS, ANY_ORIGIN))
        if not password and ANY_ORIGIN in allowed:
            raise UnsafeSettings(
                "HEELER_CORS_ORIGINS=* lets every web site that somebody visits use this server,"
                " and there is no password: set HEELER_PASSWORD, or name the origins"
            )
        return cls(
            bound_to,
            port(environment),
            password or None,
            seconds(environment, "HEELER_PING_SECONDS", PING_SECONDS_DEFAULT),
            listen_descriptor(environment),
            whole_number(
                environment,
                "HEELER_HTTP_CONNECTIONS_MAX",
                CONNECTIONS_MAX_DEFAULT,
                most=CONNECTIONS_MAX_MOST,
            ),
            mib(environment, "HEELER_FILE_MIB_MAX", FILE_BYTES_MAX_DEFAULT),
            mib(environment, "HEELER_FILES_MIB_MAX", FILES_BYTES_MAX_DEFAULT),
            allowed or (LOCAL_ORIGINS,),
            environment.get(CONFIGURATION_STATE, ""),
            CreationDefaults.from_environment(environment),
        )


def handle(environment: Mapping[str, str], name: str) -> str:
    """The handle of a model; empty if it is not set. Raises WrongSetting."""
    value = environment.get(name, "")
    if value and HANDLE.fullmatch(value) is None:
        raise wrong(name, value, "it must be like openai/text-embedding-3-small")
    return value


def mib(environment: Mapping[str, str], name: str, default: int) -> int:
    """A number of MiB, in bytes. Raises WrongSetting."""
    return whole_number(environment, name, default // MIB, most=MIB_MOST) * MIB


def listen_descriptor(environment: Mapping[str, str]) -> int | None:
    """HEELER_LISTEN_DESCRIPTOR, a socket that the supervisor opened. Raises WrongSetting."""
    name = "HEELER_LISTEN_DESCRIPTOR"
    if not environment.get(name):
        return None
    return whole_number(environment, name, 0, least=0, most=DESCRIPTOR_MOST)
