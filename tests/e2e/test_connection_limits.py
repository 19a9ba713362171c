"""What a client cannot do to the server: too much at once, too slowly, too strangely; and guess."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, closing, suppress

import httpx
import pytest

from tests.e2e.asking import SECONDS_MAX
from tests.e2e.conftest import NewAgent
from tests.e2e.second_api import one_more_api
from tests.servers import HeelerInstance, wait_until

CONNECTIONS_MAX = 30
COUNTED = "heeler_http_requests_total{"
AGENTS = 'method="POST",process="'
PASSWORD = "a password"
EACH_ITS_OWN = httpx.Limits(max_keepalive_connections=0)  # connection
AUTHORIZED = {"authorization": f"Bearer {PASSWORD}"}
GROWTH_BYTES_MAX = 100_000_000


def connected(url: str) -> socket.socket:
    address = httpx.URL(url)
    assert address.port
    return socket.create_connection((address.host, address.port), timeout=SECONDS_MAX)


def sent(url: str, *parts: bytes) -> tuple[int, str]:
    """The status and the detail with which a connection is refused."""
    with closing(connected(url)) as client:
        with suppress(ConnectionError):  # who sends on and on is cut, having been answered
            for part in parts:
                client.sendall(part)
        answer = all_of(client)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["detail"]


def all_of(client: socket.socket) -> bytes:
    """What comes until the connection ends, in whatever way."""
    received = b""
    with suppress(ConnectionError):
        while more := client.recv(65_536):
            received += more
    return received


def test_a_header_bomb_is_refused_and_costs_nothing(heeler: HeelerInstance) -> None:
    with one_more_api(heeler) as (url, process):
        before = process.memory_info().rss
        begun = b"GET /v1/agents/ HTTP/1.1\r\nhost: localhost\r\n"
        for bomb in (
            (begun, b"x: ", *[b"a" * 1_000_000] * 100),
            (begun, *[b"x: y\r\n" * 20_000] * 50),
        ):
            status, detail = sent(url, *bomb)
            assert (status, "head of the request is too large" in detail) == (431, True)
        status, detail = sent(url, b"GET /", *[b"a" * 1_000_000] * 10)
        assert (status, "URL is longer" in detail) == (414, True)
        assert process.memory_info().rss - before < GROWTH_BYTES_MAX


def test_half_a_request_is_answered_in_time(heeler: HeelerInstance) -> None:
    status, detail = sent(heeler.base_url, b"GET /v1/agents/ HTTP/1.1\r\nhost: local")
    assert (status, "did not come whole in time" in detail) == (408, True)


def test_idle_connections_keep_nobody_out(heeler: HeelerInstance) -> None:
    with (
        one_more_api(heeler, HEELER_HTTP_CONNECTIONS_MAX=str(CONNECTIONS_MAX)) as (url, process),
        ExitStack() as stack,
    ):
        port = httpx.URL(url).port

        def accepted() -> int:
            """How many connections of clients the api holds open."""
            connections = process.net_connections("tcp")
            return sum(
                connection.laddr.port == port and bool(connection.raddr)
                for connection in connections
            )

        for number in range(10 * CONNECTIONS_MAX):
            client = stack.enter_context(closing(connected(url)))
            if number % 2:
                client.sendall(b"POST /v1/agents/ HTTP/1.1\r\nhost")
            if number % 10 == 0:
                assert httpx.get(f"{url}/v1/agents/count").status_code == 200
        assert 0 < accepted() <= CONNECTIONS_MAX + 1
        stack.close()
        wait_until("all are gone", lambda: not accepted(), SECONDS_MAX)


def test_a_client_that_asks_for_http_2_is_answered_over_http_1(heeler: HeelerInstance) -> None:
    body = b'{"label": "human", "value": "Upgrade me not"}'
    head = (
        b"POST /v1/blocks/ HTTP/1.1\r\nhost: localhost\r\n"
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
        b"http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    last = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with closing(connected(heeler.base_url)) as client:
        client.sendall(head + body + last)
        answers = all_of(client)

    assert answers.count(b"HTTP/1.1 200 OK") == 2
    assert b'"value":"Upgrade me not"' in answers.replace(b": ", b":")
    assert answers.endswith(b'{"status":"ok"}')


ODD_HEADERS = [
    ({"host": "["}, 400),
    ({"host": "[::1"}, 400),
    ({"host": "localhost:x"}, 400),
    ({"host": "localhost:99999"}, 400),
    ({"host": "ho\xe9st"}, 400),
    ({"host": ""}, 403),
    ({"origin": "http://["}, 403),
    ({"origin": "http://localhost:x"}, 403),
    ({"origin": "["}, 403),
    ({"origin": "\xff"}, 403),
    ({"traceparent": "00-" + "z" * 5_000}, 200),
    ({"x-request-id": "\xff" * 5_000}, 200),
    ({"accept-encoding": "[" * 5_000, "cookie": "=" * 5_000, "content-type": "a/b;c"}, 200),
    ({"authorization": "Bearer \xff", "x-bare-password": "password"}, 200),
]


@pytest.mark.parametrize(("headers", "status"), ODD_HEADERS)
def test_odd_headers_are_understood_or_refused(
    http: httpx.Client, headers: dict[str, str], status: int
) -> None:
    given = {name: value.encode("latin-1") for name, value in headers.items()}
    for method, path, others in (
        ("GET", "/v1/agents/?limit=1", {200: 200}),
        ("PATCH", "/v1/blocks/block-00000000-0000-4000-8000-000000000000", {200: 404}),
        ("GET", "/nowhere", {200: 404}),
    ):
        answer = http.request(method, path, headers=given, json={} if method == "PATCH" else None)  # type: ignore[arg-type]
        assert answer.status_code == others.get(status, status), (path, answer.text)
        assert answer.status_code == 200 or "detail" in answer.json()


def test_a_request_names_one_host(heeler: HeelerInstance) -> None:
    for hosts, status in ((b"host: localhost\r\nhost: localhost\r\n", 400), (b"", 200)):
        with closing(connected(heeler.base_url)) as client:
            head = b"GET /v1/agents/count HTTP/1.1\r\nconnection: close\r\n"
            client.sendall(head + hosts + b"\r\n")
            answer = all_of(client)
        assert int(answer.split()[1]) == status


RETRY_COUNTS = ["١", "²", "1e9", "-1", "9" * 5_000, "", "NaN"]


@pytest.mark.parametrize("count", RETRY_COUNTS)
def test_an_odd_count_of_retries_is_understood(
    http: httpx.Client, new_agent: NewAgent, count: str
) -> None:
    answer = http.post(
        f"/v1/agents/{new_agent().id}/messages",
        json={"messages": [{"role": "user", "content": f"SAY:hello {count[:20]}"}]},
        headers={"x-stainless-retry-count": count.encode()},  # type: ignore[dict-item]
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["messages"][-1]["message_type"] == "assistant_message"


@pytest.mark.parametrize("last", ["9" * 5_000, "9" * 17, "١", "²", "-1", "1e9", "0x1", "1.0", "a"])
def test_an_odd_last_event_is_refused(http: httpx.Client, new_agent: NewAgent, last: str) -> None:
    agent = new_agent().id
    answer = http.post(
        f"/v1/agents/{agent}/messages/stream",
        json={"messages": [{"role": "user", "content": "SAY:hello"}], "background": True},
        headers={"last-event-id": last.encode()},  # type: ignore[dict-item]
    )
    assert answer.status_code == 422, answer.text
    assert "`Last-Event-ID` must be" in answer.json()["detail"]
    assert "hello" not in http.get(f"/v1/agents/{agent}/messages").text


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("//nowhere", 404),
        ("/%00", 404),
        ("/v1/agents/%", 422),
        ("/v1/agents/%zz", 422),
        ("/v1/agents/%ff%fe", 422),
        ("/v1/agents/?limit=%ff", 422),
        ("/v1//agents/count", 200),
        ("/../../etc/passwd", 404),
        ("http://localhost/v1/agents/count", 200),
        ("http://[/v1/agents/count", 400),
        ("*", 404),
    ],
)
def test_odd_targets_are_understood_or_refused(
    heeler: HeelerInstance, target: str, status: int
) -> None:
    with closing(connected(heeler.base_url)) as client:
        head = f"GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        client.sendall(head.encode())
        answer = all_of(client)
    assert int(answer.split()[1]) == status, answer
    json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("method", ["HEAD", "TRACE", "PUT", "PROPFIND", "PURGE"])
def test_methods_that_are_not_served_are_refused(http: httpx.Client, method: str) -> None:
    for path, status in (("/v1/agents/count", 405), ("/nowhere", 404)):
        answer = http.request(method, path)
        assert answer.status_code == status, (method, path, answer.text)


def test_passwords_are_not_guessed(heeler: HeelerInstance) -> None:
    with (
        one_more_api(heeler, HEELER_PASSWORD=PASSWORD) as (url, _),
        httpx.Client(base_url=url, headers=AUTHORIZED) as owner,
        httpx.Client(base_url=url, limits=EACH_ITS_OWN) as guesser,
    ):
        began = time.monotonic()
        guesses: list[int] = []
        while 429 not in guesses:
            assert owner.get("/v1/agents/count").status_code == 200
            wrong = {"x-bare-password": f"password {len(guesses)}"}
            guesses.append(guesser.get("/v1/agents/", headers=wrong).status_code)
        back = int((time.monotonic() - began) / 3.0) + 1
        assert 20 < len(guesses) <= 21 + back
        assert set(guesses[:-1]) == {401}
        refused = guesser.get("/v1/agents/", headers=AUTHORIZED)
        assert (refused.status_code, "Too many wrong" in refused.json()["detail"]) == (429, True)
        assert 1 <= int(refused.headers["retry-after"]) <= 3
        # What is known is no guess: a connection over which the password came, and no password.
        assert owner.get("/v1/agents/count").status_code == 200
        assert guesser.get("/v1/agents/").status_code == 401
        assert guesser.get("/v1/health").status_code == 200
        # One guess over that connection, and it is like all others.
        assert owner.get("/v1/agents/", headers={"authorization": "Bearer x"}).status_code == 401
        assert owner.get("/v1/agents/count").status_code == 429

        def let_in() -> bool:
            return owner.get("/v1/agents/count").status_code == 200

        wait_until("the owner is let in again", let_in, SECONDS_MAX)


def test_who_leaves_in_the_middle_of_a_body_is_no_failure_of_ours(heeler: HeelerInstance) -> None:
    with one_more_api(heeler) as (url, process):
        its_own = f'process="{socket.gethostname()}:{process.pid}"'
        head = b"POST /v1/agents/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
        for _ in range(3):
            with closing(connected(url)) as client:
                client.sendall(head)

        def counted() -> bool:
            lines = httpx.get(f"{url}/metrics").text.splitlines()
            # The other processes of this server are told too, and other tests had them fail.
            ours = [line for line in lines if line.startswith(COUNTED) and its_own in line]
            posts = [line for line in ours if AGENTS in line]
            assert not [post for post in posts if 'status="500"' in post]
            return any('status="499"' in post and float(post.split()[-1]) == 3 for post in posts)

        wait_until("they are counted as gone", counted, SECONDS_MAX)
