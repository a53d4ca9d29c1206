"""A real S3 server: SeaweedFS on free ports, with folders of its own, stopped at the end whatever happens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import boto3
from botocore.config import Config

START_S = 60.0
_FLAGS = (
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-volume.max=500",
    "-master.volumeSizeLimitMB=1024",
)


class Listed(NamedTuple):
    """An object of a listing."""

    size: int
    etag: str
    modified: str


@dataclass(frozen=True)
class S3Server:
    """A running server.

    Attributes:
        port: Port of its S3 interface.
        environment: What a process needs to use it.
    """

    port: int
    environment: dict[str, str]

    def client(self) -> Any:
        express: Any = {"disable_s3_express_session_auth": True}
        settings: dict[str, Any] = {
            "endpoint_url": self.environment["AWS_ENDPOINT_URL"],
            "region_name": "us-east-1",
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "config": Config(s3=express),
        }
        return boto3.client("s3", **settings)

    def put(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Put many objects quickly: without a signature, which this server does not ask for."""
        connection = HTTPConnection("127.0.0.1", self.port)
        for key, body in objects.items():
            connection.request("PUT", f"/{bucket}/{quote(key)}", body=body)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, (key, answer.status)
        connection.close()

    def listing(self, bucket: str, prefix: str = "") -> dict[str, Listed]:
        """Return what the bucket holds, by key."""
        connection = HTTPConnection("127.0.0.1", self.port)
        found: dict[str, Listed] = {}
        query = {"list-type": "2", "prefix": prefix}
        while True:
            connection.request("GET", f"/{bucket}?{urlencode(query)}")
            page = ElementTree.fromstring(connection.getresponse().read())
            space = page.tag.removesuffix("ListBucketResult")
            for item in page.iterfind(f"{space}Contents"):
                key, *rest = (item.findtext(space + name, "") for name in ("Key", "Size", "ETag", "LastModified"))
                found[key] = Listed(int(rest[0]), rest[1].strip('"'), rest[2])
            if page.findtext(f"{space}IsTruncated") != "true":
                connection.close()
                return found
            query["continuation-token"] = page.findtext(f"{space}NextContinuationToken", "")


@contextmanager
def running() -> Iterator[S3Server]:
    """Start a server, and stop it at the end.

    Raises:
        RuntimeError: It does not start; with the end of its log.
    """
    weed = Path(sys.executable).with_name("weed")
    folder = Path(tempfile.mkdtemp(prefix="weed-"))  # short: sockets lie in it
    services = ("master", "volume", "filer", "s3")
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2 * len(services))]
        for each in held:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in held]
    flags = [f"-{name}.port={port}" for name, port in zip(services, ports, strict=False)]
    flags += [f"-{name}.port.grpc={port}" for name, port in zip(services, ports[len(services) :], strict=True)]
    flags += [f"-{name}.localSocket={folder / name}.sock" for name in ("filer", "s3")]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(weed), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", *_FLAGS, *flags],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(folder)},  # its logs
            start_new_session=True,
        )  # fmt: skip
    port = ports[services.index("s3")]
    server = S3Server(
        port,
        {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            # The server knows no sessions of S3 Express; a bucket with such a name is an ordinary one there.
            "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true",
        },
    )
    try:
        _wait_until_it_stores(server, process, log)
        yield server
    finally:
        process.kill()  # it would take ten seconds to say goodbye, and nothing of it is kept
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        for name, port in zip(services, ports[len(services) :], strict=True):  # where no flag puts them elsewhere
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)


def _wait_until_it_stores(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    made = False
    while True:
        try:
            if not made:
                server.client().create_bucket(Bucket="ready")
                made = True
            server.put("ready", {"object": b"stored"})
        except Exception:
            if process.poll() is not None or time.monotonic() > end:
                tail = log.read_text(encoding="utf-8", errors="replace")[-3000:]
                raise RuntimeError(f"the server did not start:\n{tail}") from None
            time.sleep(0.2)
        else:
            return
