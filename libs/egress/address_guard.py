"""Which addresses of clients may be asked: none that only this machine or its network reaches."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from libs.contracts.environment_parsing import wrong
from libs.egress.failures import Forbidden

URL_CHARS_MAX = 2_000
PORTS = {"http": 80, "https": 443}
# Of IPv4 all but these is public; the last is the inside of a cloud, though it has a public number.
PRIVATE = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
        ),
    )
)
# Of IPv6 only this is, but for what is set apart in it: tunnels, documentation.
PUBLIC = ipaddress.IPv6Network("2000::/3")
SET_APART = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)
# A gateway translates these to the address of IPv4 in their last 32 bits.
TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
CALLBACK_HOSTS, MCP_HOSTS, FETCH_HOSTS, EMBEDDING_HOSTS = (
    f"HEELER_{purpose}_HOSTS" for purpose in ("CALLBACK", "MCP", "FETCH", "EMBEDDING")
)


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Lets addresses pass that are public, and hosts that are named, as `host` or `host:port`;
    `setting` is the variable that names them."""

    allowed: frozenset[str] = frozenset()
    setting: str = CALLBACK_HOSTS

    @classmethod
    def from_environment(
        cls, setting: str, environment: Mapping[str, str] = os.environ
    ) -> AddressGuard:
        """The guard of one purpose: its variable names the private hosts that clients may name, as
        `host` or `host:port` with commas between. Raises WrongSetting."""
        text = environment.get(setting, "")
        hosts = [host.strip().lower() for host in text.split(",") if host.strip()]
        for host in hosts:
            if re.fullmatch(r"[\w.-]+(:\d{1,5})?", host, re.ASCII) is None:
                raise wrong(setting, text, "it must be like localhost:9000,tools.example.lan")
        return cls(frozenset(hosts), setting)

    def allows(self, host: str, port: int) -> bool:
        """Whether a host is named."""
        host = host.lower()
        return not self.allowed.isdisjoint({host, f"{host}:{port}"})

    def check_address(self, text: str) -> SplitResult:
        """An address, as far as its text says that it may be asked. Raises Forbidden."""
        if len(text) > URL_CHARS_MAX or not text.isprintable() or not text.isascii() or " " in text:
            raise Forbidden(f"it must be a URL of at most {URL_CHARS_MAX} ASCII characters")
        try:
            url = urlsplit(text)
            port_of(url)
        except ValueError as odd:
            raise Forbidden(f"it is no URL: {odd}") from None
        if url.scheme not in PORTS or not url.hostname:
            raise Forbidden("it must begin with http:// or https:// and name a host")
        if url.username is not None or url.password is not None:
            raise Forbidden("it may not hold a login: put a token into its path or query")
        if "\\" in text:
            raise Forbidden("it may not hold a backslash")
        if not self.allows(url.hostname, port_of(url)):
            literal = literal_address(url.hostname)
            if literal is not None:
                self.require_public([literal])
            elif is_this_machine(url.hostname):
                raise Forbidden(self.of_this_network(url.hostname))
        return url

    def require_public(self, addresses: Iterable[str]) -> None:
        """Raise Forbidden unless all of these are public: of a name with a public address and one
        that is not, the next look could give the other."""
        for text in addresses:
            if not is_public(ipaddress.ip_address(text.partition("%")[0])):
                raise Forbidden(self.of_this_network(text))

    def of_this_network(self, address: str) -> str:
        """Why an address is not asked that is not public, and how that is changed."""
        return (
            f"{address} is an address of a private network, of this machine or of its cloud:"
            f" name its host in {self.setting} if it may be asked"
        )

    def refusal(self, text: str) -> str | None:
        """Why an address may not be asked, as far as its text says; None if it may."""
        try:
            self.check_address(text)
        except Forbidden as forbidden:
            return str(forbidden)
        return None


def port_of(url: SplitResult) -> int:
    """The port of an address. Raises ValueError for one that is none."""
    return url.port or PORTS.get(url.scheme, 0)


def literal_address(host: str) -> str | None:
    """The IP address that a host is, if it is no name: also one of fewer than four numbers, or of
    other than decimal ones, as whoever connects reads them (`127.1`, `0x7f000001`)."""
    bare = host.partition("%")[0].removesuffix(".")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    try:
        return str(ipaddress.IPv4Address(socket.inet_aton(bare)))
    except OSError:
        return None


def is_this_machine(host: str) -> bool:
    """Whether a name means the machine that looks it up, by its rules (RFC 6761)."""
    return host.lower().removesuffix(".").rpartition(".")[2] == "localhost"


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether everybody on the internet would reach the same machine by an address, whichever way
    it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if address in TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None:
            return address in PUBLIC and not any(address in network for network in SET_APART)
        address = inner
    return not any(address in network for network in PRIVATE)
