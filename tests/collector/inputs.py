"""Texts in the shape in which kernels and commands print them, and OTLP requests byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

LLITE = """snapshot_time             1606843200.123456789 secs.nsecs
start_time                1606800000.000000001 secs.nsecs
elapsed_time              43200.123456788 secs.nsecs
read_bytes                12 samples [bytes] 4096 1048576 12582912 13194139533312
write_bytes               3 samples [bytes] 10 4194304 8388618 35184372088832
read                      12 samples [usecs] 5 900 3000 2500000
open                      7 samples [usecs] 11 90 140 12000
close                     7 samples [usecs] 2 9 40 300
statfs                    1 samples [usecs] 400 400 400 160000
"""
LLITE_2_12 = """snapshot_time             1606843200.123456 secs.usecs
read_bytes                12 samples [bytes] 4096 1048576 12582912
write_bytes               3 samples [bytes] 10 4194304 8388618
open                      7 samples [regs]
close                     7 samples [regs]
getattr                   9 samples [regs]
"""
OSC = """snapshot_time             1606843200.123456789 secs.nsecs
req_waittime              200 samples [usec] 50 9000 400000 1200000000
req_active                200 samples [reqs] 1 8 500 2000
read_bytes                100 samples [bytes] 4096 4194304 104857600 219902325555200
write_bytes               40 samples [bytes] 4096 4194304 41943040 87960930222080
ost_read                  100 samples [usec] 50 9000 300000 900000000
obd_ping                  5 samples [usec] 90 120 500 51000
"""
MDC = """snapshot_time             1606843200.123456789 secs.nsecs
req_waittime              100 samples [usec] 50 9000 200000 1200000000
ldlm_ibits_enqueue        100 samples [reqs] 1 1 100 100
"""
NETS = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
          statistics:
              send_count: 2
              recv_count: 2
              drop_count: 2
          tunables:
              peer_timeout: 0
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.5@tcp
          status: up
          interfaces:
              0: ens32
          statistics:
              send_count: 100
              recv_count: 96
              drop_count: 0
    - net type: efa
      local NI(s):
        - nid: 10.0.0.5@efa
          status: up
          interfaces:
              0: rdmap79s0
          statistics:
              send_count: 5000
              recv_count: 4800
              drop_count: 0
        - nid: 10.0.0.5@efa1
          status: up
          statistics:
              send_count: 200
              recv_count: 300
              drop_count: 0
"""
LNET_STATS = """statistics:
    msgs_alloc: 0
    msgs_max: 130
    rst_alloc: 241
    errors: 0
    send_count: 5302
    resend_count: 0
    response_timeout_count: 0
    recv_count: 5198
    route_count: 0
    drop_count: 2
    send_length: 123456
    recv_length: 987654321
    route_length: 0
    drop_length: 0
"""
MOUNTSTATS = """device proc mounted on /proc with fstype proc
device tmpfs mounted on /run with fstype tmpfs
device 127.0.0.1:/ mounted on /lake with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys
\tage:\t7200
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0xfff7,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tnfsv4:\tbm0=0xf8f3b77e,bm1=0xa0be3a,bm2=0x0,acl=0x0,sessions,pnfs=not configured
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t5 12 0 0 5 7 40 3 0 2 0 5 0 0 3 0 0 0 0 0 0 0 0 0 0 0 0
\tbytes:\t1000000 500 20000 30 900000 400 220 1
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 9 120 120 0 130 0 4 30 10
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 100 100 0 20000 900000 10 500 520 1
\t       WRITE: 4 4 0 900 400 1 40 42 0
\t      COMMIT: 2 2 0 300 200 0 8 8 0
\t        OPEN: 6 6 0 1800 2000 0 30 31 2
\t OPEN_NOATTR: 3 3 0 900 900 0 9 9 0
\t      LOOKUP: 50 50 0 9000 9000 1 100 105 17

device tmpfs mounted on /tmp with fstype tmpfs
"""
DISKSTATS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 14000 30 900000 6000 5000 4000 400000 5000 0 9000 11000 0 0 0 0 100 50
 259       1 nvme0n1p1 13900 30 899000 5990 4990 4000 400000 5000 0 8900 10990 0 0 0 0 0 0
 259       2 nvme1n1 2000 0 160000 400 1000 0 80000 300 0 500 700 0 0 0 0 0 0
"""
MOUNTS = """proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
systemd-1 /fsx autofs rw,relatime,fd=60,pgrp=1 0 0
10.0.0.9@tcp:/abcdefgh /fsx lustre rw,flock,nouser_xattr,lazystatfs 0 0
mountpoint-s3 /lake fuse rw,nosuid,nodev,relatime,user_id=0,group_id=0,allow_other 0 0
127.0.0.1:/ /my\\040files nfs4 rw,vers=4.2 0 0
"""


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 1) + data


def attribute(key: str, value: str | int) -> bytes:
    inner = message(1, value.encode()) if isinstance(value, str) else varint(3 << 3) + varint(value)
    return message(1, key.encode()) + message(2, inner)


def metric(
    name: str,
    points: Iterable[tuple[Mapping[str, str | int], float, int]],
    *,
    kind: str = "exponential",
    temporality: int = 1,
) -> bytes:
    """One metric of points of attributes, value (of a histogram: sum) and count."""
    number = {"gauge": 5, "sum": 7, "histogram": 9, "exponential": 10}[kind]
    inner = b""
    for attributes, value, count in points:
        point = fixed(2, struct.pack("<Q", 1)) + fixed(3, struct.pack("<Q", 2))
        carries = {"gauge": 7, "sum": 7, "histogram": 9, "exponential": 1}[kind]
        point += b"".join(message(carries, attribute(*each)) for each in attributes.items())
        if kind == "sum":
            point += fixed(6, struct.pack("<q", int(value)))
        elif kind == "gauge":
            point += fixed(4, struct.pack("<d", value))
        else:
            point += fixed(4, struct.pack("<Q", count)) + fixed(5, struct.pack("<d", value))
        if kind == "exponential":
            buckets = varint(1 << 3) + varint(3) + message(2, bytes([1, 2, 3]))
            point += varint(6 << 3) + varint(40) + fixed(7, struct.pack("<Q", 0)) + message(8, buckets)
        inner += message(1, point)
    if kind != "gauge":
        inner += varint(2 << 3) + varint(temporality)
        if kind == "sum":
            inner += varint(3 << 3) + varint(1)
    return message(1, name.encode()) + message(3, b"By") + message(number, inner)


def export(*metrics: bytes) -> bytes:
    scope = message(1, message(1, b"mountpoint-s3")) + b"".join(message(2, each) for each in metrics)
    return message(1, message(1, b"") + message(2, scope))


def mountpoint_export() -> bytes:
    """What one Mountpoint sends a minute: 5 MB read, 1 MB written, 9 opens, 20 requests of 50 ms, 4 errors."""
    return export(
        metric("fuse.io_size", [({"fuse_request": "read"}, 5e6, 40), ({"fuse_request": "write"}, 1e6, 8)]),
        metric(
            "fuse.request_latency",
            [
                ({"fuse_request": "open"}, 900.0, 8),
                ({"fuse_request": "create"}, 50.0, 1),
                ({"fuse_request": "read"}, 1, 40),
            ],
        ),
        metric("s3.request_first_byte_latency", [({"s3_request": "GetObject"}, 1e6, 20)]),
        metric(
            "s3.request_errors",
            [
                ({"s3_request": "GetObject", "http_status": "503"}, 3, 1),
                ({"s3_request": "HeadObject", "http_status": 404}, 100, 1),
                ({"s3_request": "PutObject", "http_status": "403"}, 1, 1),
            ],
            kind="sum",
        ),
        metric("process.memory_usage", [({}, 1e9, 1)], kind="gauge"),
    )


def write(root: Path, path: str, text: str) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def lustre_stats(
    root: Path, *, reads: int, opens: int, waits: int = 100, targets: int = 2, folder: str = "/proc"
) -> None:
    """Write a client that has read so many MiB from each target, and opened so many files."""
    base = "/proc/fs/lustre" if folder == "/proc" else "/sys/kernel/debug/lustre"
    mib = 1 << 20
    head = "snapshot_time             1606843200.1 secs.nsecs\n"
    write(
        root,
        f"{base}/llite/fsx-ffff/stats",
        f"{head}read_bytes   {reads} samples [bytes] 4096 {mib} {2 * reads * targets * mib}\n"
        f"open                      {opens} samples [usecs] 1 5 {opens * 5} 9\nstatfs 1 samples [usecs] 1 1 1 1\n",
    )
    for target in range(targets):
        write(
            root,
            f"{base}/osc/fsx-OST{target:04x}-osc-ffff/stats",
            f"{head}req_waittime              {waits} samples [usec] 50 9000 {waits * 2000} 9\n"
            f"read_bytes                {reads} samples [bytes] 4096 {mib} {reads * mib} 9\n"
            "obd_ping                  5 samples [usec] 90 120 500 51000\n",
        )
    write(
        root,
        f"{base}/mdc/fsx-MDT0000-mdc-ffff/stats",
        f"{head}req_waittime   {waits} samples [usec] 5 9 {waits * 500}\n",
    )
