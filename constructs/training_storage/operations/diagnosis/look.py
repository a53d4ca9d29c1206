"""Figures that several rules need, worked out of an observation once. Shares are 0 to 1, rates decimal MB/s."""

from __future__ import annotations

import statistics
from functools import cached_property

from training_storage.node.metrics.model import FLEET, INSTANCE, NODE
from training_storage.node.metrics.services import FILE_SERVER, FILE_SYSTEM, PUBLISHER, TARGET
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import Evidence
from training_storage.operations.diagnosis.look_training import MINUTE_S, TrainingLook
from training_storage.operations.diagnosis.observation import merged

_MB = 1e6


class Look(TrainingLook):
    """An observation and what follows from it: what training tells, and what its storage does.

    Args:
        observation: The observation.
    """

    # -- storage

    @cached_property
    def on_lustre(self) -> bool:
        """Whether training reads from Lustre."""
        if self.expected is not None and self.expected.hot:
            return self.expected.hot == "lustre"
        return bool(self.seen.all("AWS/FSx DataReadBytes"))

    @cached_property
    def node_rates(self) -> dict[str, float]:
        """What each node reads from storage, MB/s."""
        found = {
            each.dimensions[INSTANCE]: self.rate(each)
            for each in self.seen.all("StorageReadBytes", *NODE, statistic="Sum")
        }
        return {node: rate / _MB for node, rate in found.items() if rate is not None}

    @cached_property
    def node_rate(self) -> float | None:
        """What the median node reads from storage, MB/s."""
        return statistics.median(self.node_rates.values()) if self.node_rates else None

    @cached_property
    def read_rate(self) -> float | None:
        """What all nodes read from storage, MB/s: as they say; else as FSx does; else the bytes of batches."""
        for metric, names in (
            ("StorageReadBytes", FLEET),
            ("AWS/FSx DataReadBytes", (FILE_SYSTEM,)),
            ("TrainingReadBytes", FLEET),
        ):
            rate = self.rate(self.seen.one(metric, *names, statistic="Sum"))
            if rate is not None:
                return rate / _MB
        return None

    @cached_property
    def node_share(self) -> float | None:
        """What the median node reads of what one can read."""
        limit = self.expected.node_limit_mb_per_s if self.expected else None
        return self._between_saves(self.node_rate / limit) if limit and self.node_rate is not None else None

    @cached_property
    def supply_share(self) -> float | None:
        """What the fleet reads of what the storage can give."""
        limit = self.expected.supply_mb_per_s if self.expected else None
        return self._between_saves(self.read_rate / limit) if limit and self.read_rate is not None else None

    @cached_property
    def servers(self) -> dict[str, float]:
        """How busy each file server is: its network or its disks, whichever is busier."""
        found: dict[str, float] = {}
        for metric in ("AWS/FSx NetworkThroughputUtilization", "AWS/FSx FileServerDiskThroughputUtilization"):
            for each in self.seen.all(metric, FILE_SYSTEM, FILE_SERVER):
                values = self.in_steady(each)
                if values:
                    server = each.dimensions[FILE_SERVER]
                    busy = self._between_saves(statistics.fmean(values) / 100)
                    found[server] = max(found.get(server, 0.0), busy)
        return found

    @cached_property
    def servers_share(self) -> float | None:
        """How busy the mean file server is."""
        return statistics.fmean(self.servers.values()) if self.servers else None

    @cached_property
    def system_share(self) -> float | None:
        """How near the file system as a whole is to its limit."""
        found = [each for each in (self.servers_share, self.supply_share) if each is not None]
        return max(found, default=None)

    @cached_property
    def storage_share(self) -> float | None:
        """How near any storage is to a limit that is known."""
        found = [each for each in (self.system_share, self.node_share, self.hot_share) if each is not None]
        return max(found, default=None)

    @cached_property
    def hot_ratio(self) -> float | None:
        """Bytes that the busiest storage target read of those of the mean one."""
        name = "AWS/FSx DataReadBytes"
        most = self.in_steady(self.seen.one(name, FILE_SYSTEM, statistic="Maximum"))
        mean = self.in_steady(self.seen.one(name, FILE_SYSTEM, statistic="Average"))
        # A sample is of a target and a minute: over longer periods the highest one may be a busy minute of all.
        if most and mean and sum(mean) > 0 and self.seen.period_s <= MINUTE_S:
            return (sum(most) / len(most)) / (sum(mean) / len(mean))
        targets = [self.rate(each) or 0.0 for each in self.seen.all("AWS/FSx DiskReadBytes", FILE_SYSTEM, TARGET)]
        return max(targets) / statistics.fmean(targets) if len(targets) > 1 and sum(targets) > 0 else None

    @cached_property
    def hot_share(self) -> float | None:
        """How busy the busiest file server is."""
        return max(self.servers.values(), default=None)

    @cached_property
    def metadata_share(self) -> float | None:
        """How near the metadata servers are to their limit: opens of what they serve, or their CPU."""
        found = []
        limit = self.expected.file_opens_limit_per_s if self.expected else None
        if limit and self.opens is not None:
            found.append(self._between_saves(self.opens / limit))
        if self.metadata_cpu is not None:
            found.append(self.metadata_cpu)
        return max(found, default=None)

    @cached_property
    def metadata_cpu(self) -> float | None:
        """CPU of the busiest metadata server, 0 to 1."""
        means = [
            statistics.fmean(values) / 100
            for each in self.seen.all("AWS/FSx CPUUtilization", FILE_SYSTEM, FILE_SERVER)
            if (values := self.in_steady(each))
        ]
        return max(means, default=None)

    @cached_property
    def opens(self) -> float | None:
        """Files opened by the second: as nodes say, else as FSx does."""
        rate = self.rate(self.seen.one("FileOpens", *FLEET))
        if rate is None:
            targets = self.seen.all("AWS/FSx FileOpenOperations", FILE_SYSTEM, TARGET)
            rates = [each for one in targets if (each := self.rate(one)) is not None]
            rate = sum(rates) if rates else None
        return rate

    @cached_property
    def rpc_ms(self) -> float | None:
        """Mean wait of a request to storage, milliseconds, on the median node."""
        found = self.by_node("StorageRpcWaitTime")
        return statistics.median(found.values()) if found else self.mean("StorageRpcWaitTime", *FLEET)

    @cached_property
    def rpc_quick_ms(self) -> float:
        """Wait of a request up to which this kind of storage answers quickly."""
        access, hot = (self.expected.file_access, self.expected.hot) if self.expected else ("", "")
        kind = "lustre" if self.on_lustre else "s3-files" if access == "s3-files" else "s3"
        kind = "express" if hot == "express" else kind
        return borders.RPC_QUICK_MS[kind]

    @cached_property
    def cached(self) -> float | None:
        """Times the bytes from storage that programs read, the rest out of the page cache; at most 1,000."""
        programs = self.rate(self.seen.one("ApplicationReadBytes", *FLEET))
        storage = self.rate(self.seen.one("StorageReadBytes", *FLEET))
        return programs / max(storage, programs / 1000) if programs and storage is not None else None

    @cached_property
    def throttled(self) -> tuple[float, str] | None:
        """Share of requests that S3 answered with an error of its own, and who counted them; None where nobody did.

        Clients count what was throttled and no total, so that the total is then S3's, or taken from 8 MiB a request.
        """
        requests = self._s3("AllRequests")
        errors = self._s3("5xxErrors")
        if requests and errors is not None:
            return errors / requests, "S3"
        counted = self.rate(self.seen.one("ThrottledRequests", *FLEET))
        if counted is None:
            return None
        opens = self.opens or 0.0
        total = requests or max((self.read_rate or 0.0) * _MB / (8 << 20), opens)
        return (counted / (total + counted), "clients") if total + counted > 0 else None

    @cached_property
    def gets(self) -> float | None:
        """GET requests a second on the lake."""
        return self._s3("GetRequests")

    def _s3(self, name: str) -> float | None:
        rates = [self.rate(each) for each in self.seen.all(f"AWS/S3 {name}", statistic="Sum")]
        known = [each for each in rates if each is not None]
        return sum(known) if known else None

    def queue_ages(self, publisher: str) -> tuple[float, ...]:
        """Return the age of the oldest change that a link has not carried over, period by period."""
        for each in self.seen.all("AWS/FSx AgeOfOldestQueuedMessage", FILE_SYSTEM, PUBLISHER):
            if each.dimensions[PUBLISHER] == publisher:
                return each.values
        return ()

    # -- gain and evidence

    def gain(self, share: float | None) -> dict[str, float | None]:
        """Return what a finding says that it wins, from the share of the time of all GPUs; none is more than all."""
        expected = self.expected
        share = None if share is None else min(max(share, 0.0), 1.0)
        gpus = expected.accelerators if expected else None
        price = expected.gpu_usd_per_hour if expected else None
        hours, usd = (None if share is None or each is None else share * each for each in (gpus, price))
        return {"gain_share": share, "gain_gpu_hours_per_hour": hours, "gain_usd_per_hour": usd}

    def waiting(self) -> list[Evidence]:
        """Return the evidence of waiting for data that every rule of it begins with."""
        planned = self.expected.data_wait_percent if self.expected else None
        rows = [("GPUs wait for data", self.wait, planned, "planned" if planned is not None else "")]
        if self.queue_empty is not None:
            rows.append(("loader queue empty", self.queue_empty, borders.QUEUE_EMPTY * 100, "border"))
        if self.gpu is not None:
            rows.append(("GPU utilisation", self.gpu, None, ""))
        return [
            Evidence(name=name, observed=value * 100, expected=limit, unit="%", against=against)
            for name, value, limit, against in rows
            if value is not None
        ]

    def demand(self) -> float | None:
        """Return what the job would read if no GPU waited or saved, MB/s."""
        idle = (self.wait or 0.0) + (self.blocked or 0.0)
        return None if self.read_rate is None or self.wait is None or idle >= 0.99 else self.read_rate / (1 - idle)

    def totals(self, metric: str, *names: str) -> float | None:
        """Return the sum of a metric over the periods that count and all series; None without any."""
        found = [each for each in self.seen.all(metric, *names) if each.points]
        if not found:
            return None
        return sum(value for moment, value in merged(found).items() if self.steady is None or moment in self.steady)


def percent(name: str, share: float, limit: float | None = None, against: str = "limit") -> Evidence:
    """Return evidence of a share (0 to 1), with a limit that is one as well."""
    return Evidence(
        name=name,
        observed=share * 100,
        expected=None if limit is None else limit * 100,
        unit="%",
        against="" if limit is None else against,
    )
