"""Which servers are asked through a proxy of the environment: none that is of this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cli.exit_codes import CommandError, ExitCode
from libs.contracts.listening_address import is_loopback

if TYPE_CHECKING:
    import httpx

ALL_ADDRESSES = ("0.0.0.0", "::")  # a client that asks them asks its own machine


def is_of_this_machine(url: str) -> bool:
    """Whether an address is one that a proxy on another machine cannot reach."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return is_loopback(host)
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    plain = str(mapped or number)
    return plain in ALL_ADDRESSES or is_loopback(plain)


def client_of(url: str, make: Callable[..., httpx.Client]) -> httpx.Client:
    """A client for the server at an address: by the proxy that the environment names, and with the
    certificates that it names. It follows no redirect, which would make a GET of a POST, PATCH or
    DELETE. Raises CommandError where they cannot be used."""
    import httpx

    options: dict[str, Any] = {"follow_redirects": False}
    try:
        if is_of_this_machine(url):
            options["trust_env"] = False
            options["verify"] = httpx.create_ssl_context() if url.startswith("https:") else False
        return make(**options)
    except OSError as problem:
        words = f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used: {problem}"
    except (ImportError, ValueError, httpx.InvalidURL) as problem:
        words = f"HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY cannot be used: {problem}"
    raise CommandError(words, ExitCode.USAGE)


def proxy_of(url: str) -> str | None:
    """The proxy that a server is asked through; None if it is asked directly."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if is_of_this_machine(url) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all") or None


def proxy_remark(url: str) -> str:
    """That a server was asked through a proxy, for the end of a sentence; else nothing."""
    proxy = proxy_of(url)
    if proxy is None:
        return ""
    shown = proxy.rpartition("@")[2] if "@" in proxy else proxy  # without a user and a password
    return (
        f" (asked through the proxy {shown}, of HTTP_PROXY and the like: "
        f"NO_PROXY={urlsplit(url).hostname} leaves it out)"
    )
