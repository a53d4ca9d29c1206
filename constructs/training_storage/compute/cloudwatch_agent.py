"""Configuration of the CloudWatch agent of nodes, as JSON.

It takes records in embedded metric format on the node itself, and reads the node's GPUs, CPUs, memory, network and
disks. Each of these is published for the whole fleet and for the node, and not for each disk or GPU: every set of
dimensions is a metric that is paid for.

Sources: CloudWatch user guide, "Manually create or edit the CloudWatch agent configuration file"; in the source of
amazon-cloudwatch-agent ``translator/config/schema.json``, and what reads ``emf`` and ``drop_original_metrics``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from training_storage.node.metrics.model import FLEET, INSTANCE, NAMESPACE, NODE, WORKLOAD

EMF_ADDRESS: Final = "udp://127.0.0.1:25888"
"""Without an address the agent would listen on every interface of the node."""

LOCAL_NVME: Final = "/opt/dlami/nvme"
"""Where Deep Learning images join the instance store (dlami-nvme.service)."""

_PLUGINS: Final[dict[str, dict[str, Any]]] = {
    "cpu": {"measurement": ["usage_active"], "totalcpu": True},
    # Local disks by name: the size of a file system of the network whose server is gone would never come back.
    "disk": {"measurement": ["used_percent"], "resources": ["/", LOCAL_NVME]},
    # Whole disks: their partitions and what is joined from them would count the same bytes again.
    "diskio": {"measurement": ["read_bytes", "write_bytes"], "resources": ["nvme*n1"]},
    "mem": {"measurement": ["used_percent"]},
    # Not those of containers, whose bytes pass one of these too.
    "net": {"measurement": ["bytes_recv", "bytes_sent"], "resources": ["en*", "eth*"]},
    "nvidia_gpu": {"measurement": ["utilization_gpu", "memory_used"]},
}

_BARE: Final = frozenset(("mem",))
"""What has no dimension of its own: its original is that of the node already. The agent makes no aggregate that has as
many dimensions as the original (``ProcessRollup`` in its output to CloudWatch): dropping it would leave none."""


def configuration(workload: str, *, gpus: bool = True) -> dict[str, Any]:
    """Return the configuration.

    Args:
        workload: Name of the workload; may be a token.
        gpus: Whether nodes have GPUs of NVIDIA.
    """
    collected = {
        name: {
            **plugin,
            "append_dimensions": {WORKLOAD: workload},
            # By the names of "measurement", whatever the agent calls them later.
            **({} if name in _BARE else {"drop_original_metrics": plugin["measurement"]}),
        }
        for name, plugin in _PLUGINS.items()
        if gpus or name != "nvidia_gpu"
    }
    return {
        "logs": {
            "log_stream_name": "{instance_id}",
            "metrics_collected": {"emf": {"service_address": EMF_ADDRESS}},
        },
        "metrics": {
            "namespace": NAMESPACE,
            "append_dimensions": {INSTANCE: "${aws:InstanceId}"},
            "aggregation_dimensions": [list(FLEET), list(NODE)],
            "metrics_collected": collected,
        },
    }


def configuration_line(workload: str, *, gpus: bool = True) -> str:
    """Return the configuration as one line.

    Args:
        workload: Name of the workload; may be a token.
        gpus: Whether nodes have GPUs of NVIDIA.
    """
    return json.dumps(configuration(workload, gpus=gpus), separators=(",", ":"), sort_keys=True)
