"""Refusals of the server, in words, with the exit code for each."""

from __future__ import annotations

from functools import cache

import httpx
import letta_client

from cli.exit_codes import CommandError, ExitCode
from cli.proxies import client_of, proxy_remark

CODES = {
    400: ExitCode.REFUSED,
    401: ExitCode.UNREACHABLE,
    403: ExitCode.UNREACHABLE,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.REFUSED,
    413: ExitCode.REFUSED,
    422: ExitCode.REFUSED,
    429: ExitCode.REFUSED,
}
LETS_NOBODY_IN = (401, 403, 429)
PROBE_SECONDS_MAX = 5.0


def explanation(problem: Exception) -> CommandError | None:
    """The problem in words; None if it is not the API's."""
    match problem:
        case letta_client.APIStatusError() if problem.response.has_redirect_location:
            return _redirected(problem.response)
        case letta_client.APIStatusError():
            if not _is_word_of_heeler(problem):
                base = _base_of(problem.request.url)
                if not is_heeler(base):
                    return no_heeler(base, f" ({problem.response.status_code})")
            code = CODES.get(problem.status_code, ExitCode.FAILED)
            text = "\n".join(_texts(problem.body)) or str(problem)
            if problem.status_code == 401:
                text += ". Give the key or password in HEELER_API_KEY, or by `heeler remote add`"
            return CommandError(text, code)
        case letta_client.APITimeoutError():
            return CommandError("The server did not answer in time", ExitCode.UNREACHABLE)
        case letta_client.APIConnectionError():
            url = problem.request.url
            return _no_server(f"{url.scheme}://{url.netloc.decode()}", problem.__cause__)
        case httpx.TransportError():
            return CommandError(f"The connection broke: {problem}", ExitCode.UNREACHABLE)
        case _:
            return None


def no_heeler(base: str, answered: str = "") -> CommandError:
    """That something else answers at an address."""
    return CommandError(
        f"{base} does not answer as a Heeler does{answered}: is the address right? It is given by "
        f"--url, --remote or HEELER_URL, as http://127.0.0.1:8283{proxy_remark(base)}",
        ExitCode.UNREACHABLE,
    )


def _base_of(url: httpx.URL) -> str:
    """The address of the server that a request was for: what stands before the path of the API."""
    return str(url).partition("?")[0].rpartition("/v1/")[0]


def _redirected(response: httpx.Response) -> CommandError:
    """That another address wants to be asked; nothing was done."""
    base = _base_of(response.request.url)
    try:
        other = _base_of(response.request.url.join(response.headers["location"]))
    except httpx.InvalidURL:
        other = ""
    if not other or other == base:  # a page for a browser, as to log in
        return no_heeler(base, f" ({response.status_code})")
    return CommandError(
        f"{base} sends requests on to {other}, and nothing was done: give that address by --url, "
        "--remote or HEELER_URL",
        ExitCode.UNREACHABLE,
    )


def _no_server(base: str, cause: BaseException | None) -> CommandError:
    """That nothing answers at an address, or nothing that is trusted, or in other words."""
    why = str(cause)
    if "CERTIFICATE_VERIFY_FAILED" in why:
        reason = why.rpartition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        words = (
            f"The certificate of {base} is not trusted ({reason}): if it is the right one, name "
            "the file of its authority in SSL_CERT_FILE"
        )
    elif "SSL:" in why:
        words = f"What answers at {base} speaks no TLS: is it http:// there, or another port?"
    elif isinstance(cause, httpx.RemoteProtocolError | httpx.DecodingError):
        words = f"{base} answers in no words of HTTP, or broke off ({why}): is the address right?"
    else:
        words = (
            f"No server answers at {base}: start one with `heeler up`, or name another with --url "
            "or --remote"
        )
    return CommandError(words + proxy_remark(base), ExitCode.UNREACHABLE)


@cache
def is_heeler(base: str) -> bool:
    """Whether the health of the server at an address is that of a Heeler; asks it once."""
    with client_of(base, httpx.Client) as client:
        try:
            health = client.get(f"{base}/v1/health", timeout=PROBE_SECONDS_MAX).json()
        except (httpx.HTTPError, ValueError, RecursionError):
            return False
    return isinstance(health, dict) and str(health.get("server")).startswith("heeler ")


def _is_word_of_heeler(problem: letta_client.APIStatusError) -> bool:
    """Whether an error may be a Heeler's, which says what is not there, or who may not come in."""
    match problem.body:
        case {"detail": detail}:
            return bool(detail != "Not Found")
        case dict():
            return problem.status_code != 404
        case str(text) if text.lstrip().startswith("<"):
            return False
        case _:
            return problem.status_code in LETS_NOBODY_IN


def _texts(body: object) -> list[str]:
    """Each thing that an error's body says: V1 has texts, objects and lists of fields."""
    match body:
        case str() if body.startswith("[{'type': "):
            return _texts(_list_in(body)) or [body]
        case str():
            return [body]
        case {"detail": detail}:
            return _texts(detail)
        case {"error": error}:
            return _texts(error)
        case {"loc": [*where], "msg": message}:
            fields = ".".join(str(part) for part in where if part not in ("body", "path", "query"))
            return [f"{fields}: {message}" if fields else str(message)]
        case {"message": str(message)}:
            return [message]
        case list():
            return [text for entry in body for text in _texts(entry)]
        case _:
            return []


def _list_in(text: str) -> object:
    """The fields that are wrong: V1 sends Python's text of a list, and no JSON."""
    from ast import literal_eval

    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
