"""What a plan says that the metrics should show: the lines that dashboards draw and the diagnosis measures against."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from training_storage.planner.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Figures of a plan in the units in which metrics are shown; None wherever the plan does not know.

    Attributes:
        workload: Name.
        region: Region.
        instance_type: EC2 type of the nodes.
        instance_count: Nodes.
        accelerators: GPUs of all nodes.
        hot: ``lustre``, ``express`` or ``none``.
        file_access: ``mountpoint``, ``s3-files`` or ``none``.
        efa: Whether Lustre clients are planned to speak EFA; None without Lustre.
        servers: File servers of Lustre; None without.
        read_mb_per_s: Read demand of the whole fleet.
        node_read_mb_per_s: Read demand of one node.
        node_limit_mb_per_s: What one node can read at most, from its hot tier or S3.
        supply_mb_per_s: What the storage can give at most to the whole fleet.
        write_mb_per_s: What the storage takes at most from the whole fleet; None where it is not Lustre's.
        file_opens_per_s: Files that the job opens.
        file_opens_limit_per_s: Files that the metadata servers open at most; None without Lustre.
        data_wait_percent: Predicted share of time in which GPUs wait for data.
        checkpoint_save_s: Predicted time of a save.
        checkpoint_interval_s: Time between saves.
        max_write_s: Time that a save may take, by the workload file.
        restore_s: Predicted time of a restore.
        max_restore_s: Time that a restore may take, by the workload file.
        asynchronous: Whether saves go on beside training; None without checkpoints.
        storage_usd_per_hour: Price of everything but the instances.
        gpu_usd_per_hour: Price of the fleet.
        paths: Folders on nodes by use (``datasets``, ``checkpoints``).
        import_events: Whether a link carries new objects over by itself.
        export_events: Whether a link carries new files over by itself.
    """

    workload: str
    region: str
    instance_type: str
    instance_count: int
    accelerators: float
    hot: str
    file_access: str
    efa: bool | None
    servers: int | None
    read_mb_per_s: float | None
    node_read_mb_per_s: float | None
    node_limit_mb_per_s: float | None
    supply_mb_per_s: float | None
    write_mb_per_s: float | None
    file_opens_per_s: float | None
    file_opens_limit_per_s: float | None
    data_wait_percent: float | None
    checkpoint_save_s: float | None
    checkpoint_interval_s: float | None
    max_write_s: float | None
    restore_s: float | None
    max_restore_s: float | None
    asynchronous: bool | None
    storage_usd_per_hour: float | None
    gpu_usd_per_hour: float | None
    paths: dict[str, str]
    import_events: bool
    export_events: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, in the order of the class."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Expectations:
        """Return what ``to_dict`` gave; fields of a later version are left out, and missing ones are not known.

        Raises:
            KeyError: ``workload`` is missing.
        """
        known = {name: given.get(name) for name in cls.__dataclass_fields__}
        known["workload"] = given["workload"]
        return cls(**known)  # type: ignore[arg-type]  # the types are those that to_dict wrote


def expectations(plan: Plan) -> Expectations:
    """Return what the metrics of a plan's deployment should show.

    Args:
        plan: The plan.
    """
    lustre, prediction, checkpoints = plan.lustre, plan.prediction, plan.workload.checkpoints
    iops = None if lustre is None else lustre.metadata_iops
    # 1 Gbit/s is 125 MB/s. S3 is read over IP, by the client that Mountpoint has.
    node_limit = lustre.client_limit_mb_per_s if lustre else plan.compute.mountpoint_gbps * 125
    return Expectations(
        workload=plan.name,
        region=plan.workload.region,
        instance_type=plan.compute.instance_type,
        instance_count=plan.compute.instance_count,
        accelerators=plan.accelerators,
        hot=plan.tiers.hot,
        file_access=plan.tiers.file_access,
        efa=None if lustre is None else lustre.efa,
        servers=None if lustre is None else lustre.servers,
        read_mb_per_s=plan.demand.read_mb_per_s,
        node_read_mb_per_s=plan.demand.read_mb_per_s_per_instance,
        node_limit_mb_per_s=min(node_limit, plan.compute.facts.network_gbps * 125),
        supply_mb_per_s=prediction.read_supply_mb_per_s,
        write_mb_per_s=None if lustre is None else lustre.write_throughput_mb_per_s,
        file_opens_per_s=plan.demand.file_opens_per_s,
        file_opens_limit_per_s=None if not iops else iops * plan.catalog.lustre.opens_per_metadata_iops,
        data_wait_percent=None if prediction.data_wait_fraction is None else prediction.data_wait_fraction * 100,
        checkpoint_save_s=prediction.checkpoint_write_s,
        checkpoint_interval_s=prediction.checkpoint_interval_s,
        max_write_s=None if checkpoints is None else float(checkpoints.max_write_time.seconds),
        restore_s=prediction.restore_s,
        max_restore_s=None if checkpoints is None else float(checkpoints.max_restore_time.seconds),
        asynchronous=None if checkpoints is None else checkpoints.asynchronous,
        storage_usd_per_hour=plan.cost.storage_hourly,
        gpu_usd_per_hour=plan.cost.compute_hourly,
        paths={
            use: path
            for use, path in (("datasets", plan.paths.datasets), ("checkpoints", plan.paths.checkpoints))
            if path is not None
        },
        import_events=any(link.import_events for link in lustre.links) if lustre else False,
        export_events=any(link.export_events for link in lustre.links) if lustre else False,
    )
