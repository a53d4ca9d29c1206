"""Ten thousand objects between real S3 buckets: killed, interrupted, gone on with, and nothing lost or done twice."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.servers.seaweed import Listed, S3Server

pytestmark = pytest.mark.slow

LAKE, HOT = "lake", "hot--use1-az6--x-s3"
COUNT = 10_000
MIB = 2**20

# Limits of megabytes in place of gigabytes, so that objects are really copied in parts.
# A test that runs in the background of a shell would hand down that SIGINT is ignored.
COMMAND = """
import functools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from training_storage.operations import transfer_model as model
model.Options = functools.partial(model.Options, limits=model.Limits(single_copy_bytes=6 * 2**20, part_bytes=5 * 2**20))
from training_storage.cli import main
sys.exit(main(sys.argv[1:]))
"""
STAGE = ["stage", "--from", f"s3://{LAKE}/datasets/", "--to", f"s3://{HOT}/datasets/", "--format", "json"]


def bodies() -> dict[str, bytes]:
    chance = random.Random(7)
    odd = ["blank in name", "plus+sign", "percent%25sign", "ümläut-日本", "a=b&c?d#e", "quote'\"<xml>", "tilde~()*!"]
    keys = [
        f"datasets/v{n % 3}/{n % 41:02d}/{odd[n % 7] if n % 10 == 0 else 'shard'}-{n:06d}.tar" for n in range(COUNT)
    ]
    small = {key: chance.randbytes(chance.choice((0, 1, 100, 2_000, 9_000))) for key in keys[:-4]}
    return small | {key: chance.randbytes(17 * MIB + n) for n, key in enumerate(keys[-4:])}


@pytest.fixture(scope="module")
def sources(s3_server: S3Server) -> dict[str, bytes]:
    client = s3_server.client()
    for bucket in (LAKE, HOT):
        client.create_bucket(Bucket=bucket)
    made = bodies()
    items = list(made.items())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda part: s3_server.put(LAKE, dict(items[part::8])), range(8)))
    return made


def start(server: S3Server, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        env=os.environ | server.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_copies(server: S3Server, count: int, process: subprocess.Popen[str]) -> None:
    while len(server.listing(HOT, "datasets/")) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def settled(server: S3Server) -> dict[str, Listed]:
    """Return the destination when nothing writes to it any more, and let the second of its clock pass."""
    before: dict[str, Listed] = {}
    while (now := server.listing(HOT, "datasets/")) != before:
        before = now
        time.sleep(1.1)
    return now


def journal(server: S3Server) -> list[list[Any]]:
    client = server.client()
    return [
        json.loads(line)
        for key in sorted(server.listing(LAKE, ".training-storage/transfers/"))
        if key.endswith(".jsonl.gz")
        for line in gzip.decompress(client.get_object(Bucket=LAKE, Key=key)["Body"].read()).splitlines()
    ]


def test_killed_and_interrupted_it_goes_on_and_copies_nothing_twice(
    s3_environment: S3Server, sources: dict[str, bytes]
) -> None:
    server = s3_environment
    first = start(server, STAGE)
    wait_for_copies(server, COUNT // 4, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    after_kill = settled(server)
    assert COUNT // 4 <= len(after_kill) < COUNT

    second = start(server, STAGE)
    wait_for_copies(server, len(after_kill) + COUNT // 4, second)
    second.send_signal(signal.SIGINT)
    _, said = second.communicate()
    assert second.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    after_interrupt = settled(server)
    assert len(after_interrupt) < COUNT

    third = start(server, STAGE)
    out, said = third.communicate()
    assert third.returncode == 0, said
    report = json.loads(out)
    assert (report["listed"], report["failed"], report["unverified"]) == (COUNT, 0, 0)
    assert report["known"] + report["present"] + report["copied"] == COUNT
    assert report["known"] > COUNT // 4  # the journal of the interrupted run counts

    # Nothing is missing, and every byte is right.
    there = server.listing(HOT, "datasets/")
    assert set(there) == set(sources)
    assert {key: item.size for key, item in there.items()} == {key: len(body) for key, body in sources.items()}
    listed = server.listing(LAKE, "datasets/")
    in_parts = [key for key, body in sources.items() if len(body) > 6 * MIB]
    assert {key for key in there if there[key].etag != listed[key].etag} == set(in_parts)
    client = server.client()
    for key in [*in_parts, *random.Random(1).sample(sorted(sources), 100)]:
        assert client.get_object(Bucket=HOT, Key=key)["Body"].read() == sources[key], key

    # What lay there after an interruption was not written again; its time is the server's.
    for before in (after_kill, after_interrupt):
        assert [key for key, item in before.items() if there[key].modified != item.modified] == []
    verified = [line for line in journal(server) if line[0] == "v"]
    assert {line[1] for line in verified} == {key.removeprefix("datasets/") for key in sources}
    assert [key for key, count in Counter(line[1] for line in verified if line[6]).items() if count > 1] == []
    assert client.list_multipart_uploads(Bucket=HOT).get("Uploads", []) == []

    # Changed objects alone are copied again.
    changed = {key: b"changed" + sources[key] for key in random.Random(2).sample(sorted(sources)[:5000], 20)}
    server.put(LAKE, changed)
    fourth = start(server, STAGE)
    out, said = fourth.communicate()
    assert fourth.returncode == 0, said
    assert json.loads(out)["copied"] == 20
    assert json.loads(out)["known"] == COUNT - 20
    for key, body in changed.items():
        assert client.get_object(Bucket=HOT, Key=key)["Body"].read() == body
