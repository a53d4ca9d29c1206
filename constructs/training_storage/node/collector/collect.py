"""The collector: reads counters once a minute and sends records to the CloudWatch agent of its node. It never ends.

A source that breaks is named once in the journal and tried again each minute. What the agent does not take is dropped
and counted; nothing is kept for later.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar

from ..emf import line
from ..roots import node_name, rooted
from . import lnet, mounts
from .differences import Differences, total
from .mountpoint import Meter
from .receiver import POLL_S, Receiver
from .records import Values, lustre_values, make_records, mountpoint_values, nfs_values
from .sources import Sources, read_text

INTERVAL_S = 60.0
AGENT = ("127.0.0.1", 25888)
OTLP = ("127.0.0.1", 4318)
ENVIRONMENT = "/etc/training-storage/env"
MAX_DATAGRAM = 60_000

_Read = TypeVar("_Read")


class Sender:
    """Sends lines by UDP, without ever waiting. Nothing is kept for later.

    Args:
        address: Where the agent listens.
    """

    def __init__(self, address: tuple[str, int] = AGENT) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self.dropped = 0

    def send(self, data: bytes) -> bool:
        """Send one line, and say whether somebody took it.

        On the loopback the answer that nobody listens is there when ``send`` comes back.

        Args:
            data: The line.
        """
        if len(data) <= MAX_DATAGRAM and self._sent(data):
            return True
        self.dropped += 1
        return False

    def _sent(self, data: bytes) -> bool:
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
                self._socket.connect(self._address)
            self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # what is left of the datagram before
            self._socket.send(data)
            refused = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError:
            self._close()
            return False
        return not refused

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Collector:
    """What is remembered between two looks.

    Args:
        workload: Name of the workload.
        instance: Id of this instance.
        sources: Where counters are read.
        meter: What Mountpoint sent.
        say: Says something to the journal.
        clock: Seconds since 1970.
        steady: Seconds of a clock that is never set.
    """

    def __init__(
        self,
        *,
        workload: str,
        instance: str,
        sources: Sources,
        meter: Meter,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workload, self._instance = workload, instance
        self._sources, self._meter, self._say = sources, meter, say
        self._clock, self._steady = clock, steady
        self._lustre = {kind: Differences() for kind in ("llite", "osc", "mdc")}
        self._nfs, self._disks, self._messages, self._lengths = (Differences() for _ in range(4))
        self._nids: frozenset[str] = frozenset()
        self._broken: set[str] = set()
        self._last: float | None = None

    def look(self) -> list[dict[str, Any]]:
        """Read everything once and return the records of the interval; the first look has only what needs none."""
        now, last = self._steady(), self._last
        self._last = now
        wanted = self._try("mounts of the plan", self._sources.wanted_mounts) or {}
        mounted = self._try("/proc/mounts", self._sources.mounted)
        node: Values = {}
        if wanted and mounted is not None:
            node["MountsMissing"] = float(len(mounts.missing(wanted, mounted)))
        lustre = self._try("statistics of Lustre", self._sources.lustre) or {}
        has_lustre = any(lustre.values())
        parts = {
            "lustre": lustre_values({kind: each.look(lustre.get(kind)) for kind, each in self._lustre.items()}),
            "nfs": nfs_values(self._nfs.look(self._try("/proc/self/mountstats", self._sources.nfs))),
            "mountpoint": mountpoint_values(self._meter.take()),
        }
        requests = wait_ms = 0.0
        for _, more, (count, wait) in parts.values():
            for name, value in more.items():
                node[name] = node.get(name, 0.0) + value
            requests, wait_ms = requests + count, wait_ms + wait
        # A sum of which one kind's part is not known.
        node = {name: value for name, value in node.items() if math.isfinite(value)}
        if requests:
            node["StorageRpcWaitTime"] = wait_ms / requests
        node.update(self._network(has_lustre))
        disks = self._disks.look(self._try("/proc/diskstats", self._sources.instance_stores))
        nvme = {
            name: float(value)
            for name, value in (
                ("StorageReadBytes", total(disks, "read_bytes")),
                ("StorageWriteBytes", total(disks, "write_bytes")),
            )
            if value is not None
        }
        return make_records(
            {**{kind: values for kind, (values, _, _) in parts.items()}, "nvme": nvme},
            node,
            workload=self._workload,
            instance=self._instance,
            timestamp_s=self._clock(),
            interval_s=INTERVAL_S if last is None else now - last,
        )

    def _network(self, has_lustre: bool) -> Values:
        found = self._try("messages and bytes of lnetctl", self._sources.lnet) if has_lustre else None
        nids = frozenset(found[0]) if found is not None else frozenset()
        same, self._nids = nids == self._nids, nids
        messages = self._messages.look(
            None if found is None else {nid: {"n": count} for nid, count in found[0].items()}
        )
        lengths = self._lengths.look(None if found is None else {"lnet": found[1]})
        bytes_moved = (total(lengths, "send_length"), total(lengths, "recv_length"))
        counts = {nid: total({nid: moved}, "n") for nid, moved in messages.items()}
        known = {nid: count for nid, count in counts.items() if count is not None}
        if not same or not known or len(known) != len(counts) or None in bytes_moved:
            return {}
        nets = lnet.split(sum(each or 0 for each in bytes_moved), known)
        return {name: nets[net] for net, name in (("efa", "EfaBytes"), ("tcp", "TcpBytes")) if net in nets}

    def _try(self, what: str, read: Callable[[], _Read]) -> _Read | None:
        """Read one source; a fault of ours in one of them must not take the others along."""
        why, found = "", None
        try:
            found = read()
        except Exception as error:  # whatever a kernel or a command prints, the loop goes on
            why = f": {error!r}"
        if found is None and what not in self._broken:
            self._broken.add(what)
            self._say(f"{what} can't be read, and is not counted until it can{why}")
        elif found is not None and what in self._broken:
            self._broken.discard(what)
            self._say(f"{what} can be read again")
        return found


def settings() -> dict[str, str]:
    """Return what the bootstrap wrote for programs, and over it what the environment says."""
    found: dict[str, str] = {}
    for text in (read_text(ENVIRONMENT) or "").splitlines():
        name, _, value = text.partition("=")
        found[name] = value.strip('"')
    return {**found, **os.environ}


def run(
    values: Mapping[str, str],
    *,
    say: Callable[[str], None],
    sources: Sources | None = None,
    sender: Sender | None = None,
    otlp: tuple[str, int] = OTLP,
    sleep: Callable[[float], None] = time.sleep,
    steady: Callable[[], float] = time.monotonic,
    looks: int | None = None,
) -> int:
    """Look once a minute, for ever.

    Args:
        values: Settings; ``TRAINING_STORAGE_WORKLOAD`` is needed.
        say: Says something to the journal.
        sources: Where counters are read. Left out: this node.
        sender: Where records go. Left out: the agent of this node.
        otlp: Where Mountpoint's metrics are taken.
        sleep: Waits seconds.
        steady: Seconds of a clock that is never set.
        looks: Ends after so many looks. Left out: never.

    Returns:
        Exit status: 2 where there is no workload.
    """
    workload = values.get("TRAINING_STORAGE_WORKLOAD", "")
    if not workload:
        say(f"TRAINING_STORAGE_WORKLOAD is neither in {rooted(ENVIRONMENT)} nor in the environment")
        return 2
    sender, meter = sender or Sender(), Meter()
    receiver: Receiver | None = None
    try:
        receiver = Receiver(meter, otlp, say, poll_s=POLL_S if looks is None else 0.01)
    except OSError as error:
        say(f"port {otlp[1]} is taken, so that what Mountpoint sends is not counted: {error}")
    collector = Collector(
        workload=workload,
        instance=values.get("TRAINING_STORAGE_INSTANCE_ID", "") or node_name(),
        sources=sources or Sources(),
        meter=meter,
        say=say,
        steady=steady,
    )
    refused, done, due = False, 0, steady()
    try:
        while looks is None or done < looks:
            lost = sender.dropped
            for each in _look(collector, say):
                if sender.dropped:
                    each["RecordsDropped"] = sender.dropped
                sender.send(line(each))
            if (sender.dropped > lost) != refused:
                refused = not refused
                say(f"the agent takes {'no ' if refused else ''}records; {sender.dropped} are dropped so far")
            done += 1
            due = max(due + INTERVAL_S, steady())
            sleep(max(0.0, due - steady()))
    finally:
        if receiver is not None:
            receiver.stop()
    return 0


def _look(collector: Collector, say: Callable[[str], None]) -> list[dict[str, Any]]:
    try:
        return collector.look()
    except Exception as error:
        say(f"this minute is not counted: {error!r}")
        return []


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the service manager ends it.

    Args:
        argv: Arguments, of which there are none. Left out: those of the process.
    """
    del argv
    return run(settings(), say=lambda text: print(f"training-storage-collector: {text}", file=sys.stderr, flush=True))
