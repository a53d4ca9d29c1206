"""The metrics that nodes of ours write: telemetry in the training process, the collector and the CloudWatch agent."""

from __future__ import annotations

from .model import FLEET, KIND, NAMESPACE, NODE, RANK, SOURCE, Metric

_ALL = (FLEET, NODE, RANK)
_NODES = (FLEET, NODE)


def _telemetry(name: str, unit: str, statistic: str, meaning: str) -> tuple[str, Metric]:
    return name, Metric(name, NAMESPACE, unit, _ALL, statistic, "telemetry", meaning)


def _collector(
    name: str, unit: str, statistic: str, meaning: str, dimensions: tuple[tuple[str, ...], ...] = _NODES
) -> tuple[str, Metric]:
    return name, Metric(name, NAMESPACE, unit, dimensions, statistic, "collector", meaning)


def _agent(name: str, unit: str, statistic: str, meaning: str) -> tuple[str, Metric]:
    # The agent is told our namespace and a dimension Workload, and adds up to these two sets by itself.
    return name, Metric(name, NAMESPACE, unit, _NODES, statistic, "cloudwatch-agent", meaning)


OURS: dict[str, Metric] = dict(
    (
        # One record a rank and interval; each value is of that interval alone.
        _telemetry("ElapsedTime", "Seconds", "Sum", "time that this rank's loop was watched"),
        _telemetry("DataWaitTime", "Seconds", "Sum", "time of it in which the rank waited for a batch"),
        _telemetry("DataWaitShare", "Percent", "Average", "DataWaitTime of ElapsedTime"),
        _telemetry("Steps", "Count", "Sum", "steps ended"),
        _telemetry("StepTime", "Seconds", "Average", "time of a step, from batch to batch; up to 100 values"),
        _telemetry("StepTimeVariation", "Percent", "Average", "standard deviation of the step times of their mean"),
        _telemetry("LoaderQueueEmptyShare", "Percent", "Average", "batches asked for while none was ready"),
        _telemetry(
            "LoaderQueueDepth", "Count", "Average", "batches ready when one was asked for, where a loader tells"
        ),
        _telemetry("TrainingReadBytes", "Bytes", "Sum", "bytes of the batches that came, where their size is known"),
        _telemetry("CheckpointSaveTime", "Seconds", "Maximum", "time of one save, from its begin to its end"),
        _telemetry("CheckpointBlockedTime", "Seconds", "Sum", "time in which saves or restores held the loop up"),
        _telemetry("CheckpointSaveBytes", "Bytes", "Sum", "bytes saved, where their number is known"),
        _telemetry(
            "Epoch", "Count", "Maximum", "number of the epoch, from 1; written where the loop tells or restarts"
        ),
        _telemetry("DroppedRecords", "Count", "Sum", "records that nobody took"),
        (
            "RestoreTime",
            Metric(
                "RestoreTime",
                NAMESPACE,
                "Seconds",
                (*_ALL, SOURCE),
                "Maximum",
                "telemetry, drill",
                "time of reading one checkpoint back: by the training (no Source), or by a drill",
            ),
        ),
        # One record a node and minute.
        _collector(
            "StorageReadBytes",
            "Bytes",
            "Sum",
            "bytes that this node got from storage, not from its page cache; local NVMe in Kind alone",
            (*_NODES, KIND),
        ),
        _collector("StorageWriteBytes", "Bytes", "Sum", "bytes that this node sent to storage", (*_NODES, KIND)),
        _collector("ApplicationReadBytes", "Bytes", "Sum", "bytes that programs read on it, page cache included"),
        _collector("FileOpens", "Count", "Sum", "files opened on file systems of the network"),
        _collector("StorageRpcWaitTime", "Milliseconds", "Average", "mean wait of a request to storage for its answer"),
        _collector("StorageRequestErrors", "Count", "Sum", "requests to storage that failed"),
        _collector(
            "ThrottledRequests", "Count", "Sum", "requests that S3 answered with 503, where a client counts them"
        ),
        _collector("EfaBytes", "Bytes", "Sum", "bytes to and from the file servers over EFA"),
        _collector("TcpBytes", "Bytes", "Sum", "bytes to and from the file servers over TCP"),
        _collector("MountsMissing", "Count", "Maximum", "mounts of the plan that this node does not have"),
        # Once in five minutes, whatever nodes do.
        (
            "LinksBroken",
            Metric(
                "LinksBroken",
                NAMESPACE,
                "Count",
                (FLEET,),
                "Maximum",
                "link-watch",
                "1 while a link of the file system to S3 has stopped, MISCONFIGURED or FAILED; else 0",
            ),
        ),
        # Names: input plugin and field; for GPUs nvidia_smi_ and the field (facts of GPUs, section 2.5).
        _agent("nvidia_smi_utilization_gpu", "Percent", "Average", "share of time in which a kernel ran on the GPU"),
        _agent("nvidia_smi_memory_used", "Megabytes", "Average", "memory used on the GPU"),
        _agent("cpu_usage_active", "Percent", "Average", "share of time in which the CPUs of the node were busy"),
        _agent("mem_used_percent", "Percent", "Average", "memory of the node in use"),
        _agent("net_bytes_recv", "Bytes", "Sum", "bytes received by interfaces of the node; EFA does not count"),
        _agent("net_bytes_sent", "Bytes", "Sum", "bytes sent by them"),
        _agent("diskio_read_bytes", "Bytes", "Sum", "bytes read from disks of the node, local NVMe included"),
        _agent("diskio_write_bytes", "Bytes", "Sum", "bytes written to them"),
        _agent("disk_used_percent", "Percent", "Maximum", "share of a disk that is used"),
    )
)
"""By name. The first set of dimensions is the whole fleet; no metric is written under two names."""
