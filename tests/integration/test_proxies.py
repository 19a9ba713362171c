"""A proxy with the configuration of docs/operations.md hands on a stream piece by piece, by TLS."""

from __future__ import annotations

import queue
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.operations_page import blocks
from tests.ports import free_port
from tests.servers import delete_home, temporary_home, wait_until

NAME = "heeler.example.com"
SECONDS_MAX = 30.0
FIRST, SECOND = b"data: first\n\n", b"data: second\n\n"
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""


class Upstream:
    """In Heeler's place: the second piece of its answer is not sent before the client has the
    first, so a proxy that keeps pieces back never gets to the end."""

    def __init__(self) -> None:
        self.first_arrived = threading.Event()
        self.asked: queue.Queue[dict[str, str]] = queue.Queue()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.rfile.read(int(headers["content-length"]))
                upstream.asked.put(headers)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(FIRST)
                self.wfile.flush()
                upstream.first_arrived.wait(SECONDS_MAX)
                self.wfile.write(SECOND)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.server.shutdown()
    upstream.server.server_close()


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = temporary_home()
    write_certificate(folder)
    yield folder
    delete_home(folder)


def write_certificate(folder: Path) -> None:
    """A certificate that has signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "heeler.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "heeler.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def nginx(folder: Path, port: int, upstream: int) -> list[str]:
    [server] = blocks("nginx")
    server = server.replace("/etc/ssl/", f"{folder}/").replace("443", f"127.0.0.1:{port}")
    configured = NGINX.format(folder=folder, server=server.replace("8283", str(upstream)))
    (folder / "nginx.conf").write_text(configured)
    return ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def caddy(folder: Path, port: int, upstream: int) -> list[str]:
    [site] = blocks("caddy")
    own = f"{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {folder}/heeler.crt {folder}/heeler.key"
    site = site.replace(f"{NAME} {{", own).replace("8283", str(upstream))
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + site)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_until(f"{command[0]} listens", lambda: listens(process, folder, port), SECONDS_MAX)
        yield
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


def listens(process: subprocess.Popen[bytes], folder: Path, port: int) -> bool:
    assert process.poll() is None, (folder / "output").read_text()
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=SECONDS_MAX)
    except httpx.ConnectError:
        return False
    except httpx.HTTPError:
        return True  # it wants TLS
    return True


@pytest.mark.parametrize("configure", [nginx, caddy], ids=["nginx", "caddy"])
def test_a_proxy_hands_on_each_piece_of_a_stream_when_it_comes(
    upstream: Upstream,
    folder: Path,
    configure: Callable[[Path, int, int], list[str]],
) -> None:
    port = free_port()
    command = configure(folder, port, upstream.port)
    if not shutil.which(command[0], path="/usr/sbin:/usr/bin"):
        pytest.skip(f"{command[0]} is not installed here")
    trusted = ssl.create_default_context(cafile=str(folder / "heeler.crt"))
    with (
        running(command, folder, port),
        httpx.Client(verify=trusted, timeout=SECONDS_MAX) as client,
        client.stream(
            "POST",
            f"https://127.0.0.1:{port}/v1/agents/agent-1/messages/stream",
            headers={"host": NAME, "authorization": "Bearer word"},
            json={},
            extensions={"sni_hostname": NAME},
        ) as answer,
    ):
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        upstream.first_arrived.set()
        assert b"".join(pieces) == SECOND

    asked = upstream.asked.get_nowait()
    assert asked["host"].partition(":")[0] == NAME
    assert asked["x-forwarded-for"] == "127.0.0.1"
    assert asked["authorization"] == "Bearer word"


def test_nginx_does_not_hand_on_the_host_that_a_client_makes_up(
    upstream: Upstream, folder: Path
) -> None:
    port = free_port()
    command = nginx(folder, port, upstream.port)
    if not shutil.which(command[0], path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed here")
    upstream.first_arrived.set()
    trusted = ssl.create_default_context(cafile=str(folder / "heeler.crt"))
    with (
        running(command, folder, port),
        httpx.Client(verify=trusted, timeout=SECONDS_MAX) as client,
    ):
        client.post(
            f"https://127.0.0.1:{port}/v1/agents/",
            headers={"host": "localhost"},
            json={},
            extensions={"sni_hostname": NAME},
        )

    assert upstream.asked.get_nowait()["host"] == NAME
