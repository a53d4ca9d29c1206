"""A fleet that trains, computed from what limits it: every series follows from the same few rates, limits and times.

A rank wants ``demand`` MB/s. What it gets is the least of what its node, the file servers, the metadata servers, S3,
its loader and the time of single requests allow. A step takes as long as the slowest rank's, for ranks wait for each
other; waiting for others is busy waiting on the GPU, and no waiting for data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from training_storage.operations.diagnosis.folding import Sample, end_of_period, fold
from training_storage.operations.diagnosis.observation import Observation
from training_storage.planner.expectations import Expectations

MB = 1e6
GIB = float(1 << 30)
PERIOD_S = 60.0
START = 1_800_000_000.0
NAME = "llama"
FS = "fs-0123456789abcdef0"
BUCKET = "llama-lake"


@dataclass(frozen=True)
class World:
    """What is so. Rates in MB/s, times in seconds."""

    nodes: int = 6
    ranks: int = 2
    periods: int = 12
    seed: int = 1
    hot: str = "lustre"
    file_access: str = "mountpoint"
    demand: float = 250.0
    step_s: float = 0.5
    file_mb: float = 10.0
    # Limits of the storage.
    servers: int = 8
    server_limit: float = 1000.0
    hot_target: float = 0.0  # share of all bytes that one target has more than its part
    node_limit: float = 50_000.0
    open_limit: float = 24_000.0
    prefix_gets: float = 5500.0
    efa_planned: bool = True
    efa_share: float = 1.0  # of the bytes
    request_mb: float = 1.0
    latency_ms: float = 1.0
    requests: float = 8.0  # that a rank has under way
    # The loader's work.
    cpu_limit: float = 1500.0  # bytes that the CPUs of a node prepare
    loader_limit: float = 1e9  # that the workers of a rank prepare, whatever the CPUs
    slow_node: int | None = None
    slow_rank: int | None = None
    slow_factor: float = 1.0  # of what that node or rank gets
    slow_compute: float = 1.0
    in_step: bool = True  # False: ranks do not wait for each other
    # Saves and restores.
    checkpoint_gb: float = 60.0
    save_rate: float = 6000.0
    save_every: int = 4
    asynchronous: bool = False
    restore_s: float | None = None
    # First epoch.
    epoch_periods: int = 0
    lazy_limit: float = 1e9
    # The rest.
    application_factor: float = 1.0
    no_training: bool = False
    collector: bool = True
    free: float = 0.4
    fullest: float = 0.35
    export_age_s: float = 40.0
    export_grows: bool = False
    import_age_s: float = 20.0
    throttled: float = 0.0
    missing_mounts: int = 0
    associations: tuple[dict[str, Any], ...] = field(
        default=(
            {
                "id": "dra-1", "path": "/datasets", "source": f"s3://{BUCKET}/datasets/", "bucket": BUCKET,
                "lifecycle": "AVAILABLE", "import": ["NEW", "CHANGED"], "export": [], "message": "",
            },
        )
    )  # fmt: skip
    notified: bool = True

    @property
    def count(self) -> int:
        return self.nodes * self.ranks

    @property
    def on_lustre(self) -> bool:
        return self.hot == "lustre"

    @property
    def efa_used(self) -> bool:
        return self.efa_planned and self.efa_share >= 0.1

    @property
    def actual_node_limit(self) -> float:
        tcp = min(12_500.0, 625.0 * self.servers)
        return (
            self.node_limit
            if not self.on_lustre or self.efa_used or not self.efa_planned
            else min(tcp, self.node_limit)
        )

    # -- rates

    def rank_limit(self, rank: int, period: int) -> float:
        """What one rank gets at most of everything, MB/s."""
        limits = [
            self.actual_node_limit / self.ranks,
            self.cpu_limit / self.ranks,
            self.loader_limit,
            self.requests * self.request_mb / (self.latency_ms / 1000),
        ]
        if self.on_lustre:
            even = 1 / self.servers
            hottest = even + self.hot_target * (1 - even)
            limits += [
                self.server_limit / hottest / self.count,
                self.open_limit * self.file_mb / self.count,
            ]
            if period < self.epoch_periods:
                limits.append(self.lazy_limit / self.count)
        else:
            limits.append(self.prefix_gets * min(self.file_mb, 8.388608) / self.count)
        limit = min(limits)
        if rank // self.ranks == self.slow_node or rank == self.slow_rank:
            limit = min(limit, self.demand) * self.slow_factor
        return limit

    def step(self, period: int) -> tuple[float, list[float], list[float]]:
        """Time of a step, the waiting of each rank in it, and when each is ready for the next."""
        size = self.demand * self.step_s
        waits, ends = [], []
        for rank in range(self.count):
            compute = self.step_s * (self.slow_compute if rank // self.ranks == self.slow_node else 1.0)
            load = size / self.rank_limit(rank, period)
            waits.append(max(0.0, load - compute))
            ends.append(max(load, compute))
        return max(ends), waits, ends

    # -- what is published

    def observation(self, **facts: Any) -> Observation:
        return Observation(
            workload=NAME,
            since=START,
            until=START + self.periods * PERIOD_S,
            period_s=PERIOD_S,
            series=fold(self.samples(), end_of_period(PERIOD_S)),
            expected=self.expected(),
            facts={**self.facts(), **facts},
        )

    def facts(self) -> dict[str, Any]:
        if not self.on_lustre:
            return {}
        return {
            "file_system": {"id": FS, "storage_capacity_gib": 9600, "per_unit_storage_throughput": 250},
            "associations": [dict(each) for each in self.associations],
            "tasks": [],
            "bucket_notification": {BUCKET: {"fsx": self.notified, "ids": ["FSx"] if self.notified else []}},
        }

    def expected(self) -> Expectations:
        planned = replace(self, efa_share=1.0)
        save_s = self.checkpoint_gb * 1000 / 6000.0
        supply = (
            self.server_limit * self.servers
            if self.on_lustre
            else min(self.node_limit * self.nodes, self.prefix_gets * 8.388608)
        )
        return Expectations(
            workload=NAME, region="us-east-1", instance_type="p5.48xlarge", instance_count=self.nodes,
            accelerators=float(self.count), hot=self.hot, file_access=self.file_access,
            efa=self.efa_planned if self.on_lustre else None, servers=self.servers if self.on_lustre else None,
            read_mb_per_s=self.demand * self.count, node_read_mb_per_s=self.demand * self.ranks,
            node_limit_mb_per_s=planned.node_limit, supply_mb_per_s=supply,
            write_mb_per_s=6500.0 if self.on_lustre else None,
            file_opens_per_s=self.demand * self.count / self.file_mb,
            file_opens_limit_per_s=self.open_limit if self.on_lustre else None,
            data_wait_percent=0.0, checkpoint_save_s=save_s, checkpoint_interval_s=self.save_every * PERIOD_S,
            max_write_s=60.0, restore_s=30.0, max_restore_s=120.0, asynchronous=self.asynchronous,
            storage_usd_per_hour=12.0, gpu_usd_per_hour=55.0 * self.nodes,
            paths={"datasets": "/fsx/datasets", "checkpoints": "/fsx/checkpoints"},
            import_events=True, export_events=True,
        )  # fmt: skip

    def _saves(self) -> list[tuple[float, float]]:
        """Begin and end of each save, seconds from the start."""
        took = self.checkpoint_gb * 1000 / self.save_rate
        return [
            (begin * PERIOD_S, begin * PERIOD_S + took)
            for begin in range(self.save_every, self.periods - 1, self.save_every)
        ]

    def samples(self) -> Iterator[Sample]:
        """Everything that is published, with some noise."""
        noise = random.Random(self.seed)
        for period in range(self.periods):
            yield from self._period(period, START + period * PERIOD_S + 30.0, noise)

    def _period(self, period: int, moment: float, noise: random.Random) -> Iterator[Sample]:
        def about(value: float) -> float:
            return max(0.0, value * noise.gauss(1.0, 0.01))

        step_s, waits, ends = self.step(period)
        begin, end = period * PERIOD_S, (period + 1) * PERIOD_S
        saving = sum(max(0.0, min(end, to) - max(begin, at)) for at, to in self._saves())
        blocked = 0.0 if self.no_training else saving * (0.03 if self.asynchronous else 1.0)
        restored = self.restore_s if period == 0 and self.restore_s else 0.0
        active = max(0.0, PERIOD_S - blocked - restored) / PERIOD_S
        rate = self.demand * self.step_s / step_s * active  # of each rank, for all step together
        total = rate * self.count

        def fleet(name: str, *values: float, **more: str) -> Sample:
            return Sample(name, {"Workload": NAME, **more}, moment, values)

        for rank in range(self.count):
            node = f"i-{rank // self.ranks:017x}"
            own_s = step_s if self.in_step else ends[rank]
            share = waits[rank] / own_s
            values = {
                "ElapsedTime": PERIOD_S,
                "DataWaitTime": about(share * active * PERIOD_S + 0.002 * PERIOD_S),
                "Steps": active * PERIOD_S / own_s,
                "StepTime": about(own_s),
                # Whoever waits asks before a batch is ready nearly each time; who does not, now and then.
                "LoaderQueueEmptyShare": about(97.0 if share > 0.01 else 4.0),
                "TrainingReadBytes": about(rate * MB * PERIOD_S),
            }
            if self.epoch_periods:
                values["Epoch"] = 1.0 if period < self.epoch_periods else 2.0
            if blocked:
                values["CheckpointBlockedTime"] = about(blocked)
            if restored:
                values["RestoreTime"] = about(restored)
                values["CheckpointBlockedTime"] = restored
            for at, to in self._saves():
                if begin < to <= end:
                    values["CheckpointSaveTime"] = about(to - at)
                    values["CheckpointSaveBytes"] = self.checkpoint_gb * 1e9 / self.count
            if self.no_training:
                values = {}
            for name, value in values.items():
                yield fleet(name, value)
                yield fleet(name, value, InstanceId=node)
                yield fleet(name, value, InstanceId=node, Run="r1", Rank=str(rank))
        if self.collector:
            yield from self._nodes(period, moment, rate, step_s, waits, active, about)
        if self.on_lustre:
            yield from self._file_system(period, moment, total, about)
        elif self.throttled:
            gets = total / min(self.file_mb, 8.388608)
            of = {"BucketName": BUCKET, "FilterId": "datasets"}
            yield Sample("AWS/S3 GetRequests", of, moment, (gets * PERIOD_S,))
            yield Sample("AWS/S3 AllRequests", of, moment, (gets * PERIOD_S / (1 - self.throttled),))
            yield Sample("AWS/S3 5xxErrors", of, moment, (gets * PERIOD_S / (1 - self.throttled) * self.throttled,))

    def _latency(self, rate: float, node: int) -> float:
        """A request waits longer, the busier what serves it: as in a queue with one server."""
        total = rate * self.count
        used = [rate * self.ranks / self.actual_node_limit]
        if self.on_lustre:
            used += [total / (self.server_limit * self.servers), total / self.file_mb / self.open_limit]
        slow = 1 / self.slow_factor if node == self.slow_node else 1.0
        return self.latency_ms / (1 - 0.95 * min(1.0, max(used))) * slow

    def _nodes(
        self, period: int, moment: float, rate: float, step_s: float, waits: list[float], active: float, about: Any
    ) -> Iterator[Sample]:
        for node in range(self.nodes):
            bytes_read = rate * self.ranks * MB * PERIOD_S
            own = waits[node * self.ranks : (node + 1) * self.ranks]
            busy = 1 - sum(own) / len(own) / step_s
            cpu = min(0.98, 0.05 + 0.95 * rate / active * self.ranks / self.cpu_limit) if active else 0.05
            efa = self.efa_share if self.efa_planned else 0.0
            values = {
                "StorageReadBytes": about(bytes_read),
                "ApplicationReadBytes": about(bytes_read * self.application_factor),
                "StorageWriteBytes": about(1e6),
                "FileOpens": about(rate * self.ranks / self.file_mb * PERIOD_S),
                "StorageRpcWaitTime": about(self._latency(rate / active if active else 0.0, node)),
                "MountsMissing": 1.0 if node < self.missing_mounts else 0.0,
                "cpu_usage_active": about(cpu * 100),
            }
            if not self.no_training:
                values["nvidia_smi_utilization_gpu"] = min(100.0, about(97 * busy * active))
            if self.on_lustre:
                values |= {"EfaBytes": about(bytes_read * efa), "TcpBytes": about(bytes_read * (1 - efa) + 1e5)}
            if self.throttled and not self.on_lustre:
                gets = rate * self.ranks / min(self.file_mb, 8.388608) * PERIOD_S
                values["ThrottledRequests"] = gets / (1 - self.throttled) * self.throttled
            for name, value in values.items():
                yield Sample(name, {"Workload": NAME}, moment, (value,))
                yield Sample(name, {"Workload": NAME, "InstanceId": f"i-{node:017x}"}, moment, (value,))

    def _file_system(self, period: int, moment: float, total: float, about: Any) -> Iterator[Sample]:
        of = {"FileSystemId": FS}
        even = 1 / self.servers
        parts = [even * (1 - self.hot_target)] * self.servers
        parts[0] += self.hot_target
        reads = tuple(about(total * part * MB * PERIOD_S) for part in parts)
        capacity = 9600 * GIB
        other = (self.free * self.servers - self.fullest) / (self.servers - 1)
        frees = tuple(capacity / self.servers * (self.fullest if at == 0 else other) for at in range(self.servers))
        yield Sample("AWS/FSx DataReadBytes", of, moment, reads)
        yield Sample("AWS/FSx DataWriteBytes", of, moment, (1e6,) * self.servers)
        yield Sample("AWS/FSx FreeDataStorageCapacity", of, moment, frees)
        yield Sample("AWS/FSx ClientConnections", of, moment, (float(self.nodes),))
        for at, part in enumerate(parts):
            used = 100 * min(1.0, total * part / self.server_limit)
            server = {**of, "FileServer": f"oss-{at}"}
            yield Sample("AWS/FSx NetworkThroughputUtilization", server, moment, (about(used) * 0.6,))
            yield Sample("AWS/FSx FileServerDiskThroughputUtilization", server, moment, (min(100.0, about(used)),))
            yield Sample("AWS/FSx DiskReadBytes", {**of, "StorageTargetId": f"OST{at:04x}"}, moment, (reads[at],))
        opens = total / self.file_mb
        cpu = min(100.0, about(100 * opens / self.open_limit))
        yield Sample("AWS/FSx CPUUtilization", {**of, "FileServer": "mds-0"}, moment, (cpu,))
        age = self.export_age_s + (period * PERIOD_S if self.export_grows else 0.0)
        yield Sample("AWS/FSx AgeOfOldestQueuedMessage", {**of, "Publisher": "AutoExport"}, moment, (age,))
        queue = {**of, "Publisher": "AutoImport"}
        yield Sample("AWS/FSx AgeOfOldestQueuedMessage", queue, moment, (self.import_age_s + period,))
        if period < self.epoch_periods:
            of = {"BucketName": BUCKET, "FilterId": "datasets"}
            yield Sample("AWS/S3 BytesDownloaded", of, moment, (total * MB * PERIOD_S,))
