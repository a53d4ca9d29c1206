"""The alarms, one row each: what it watches, from which value on, for how long, and what missing data means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from training_storage.monitoring import watches
from training_storage.monitoring.metrics import Math
from training_storage.monitoring.subject import Expected, Subject
from training_storage.units import GIB

ABOVE: Final = "GreaterThanThreshold"
BELOW: Final = "LessThanThreshold"

_NOT_TRAINING: Final = "without a datapoint no training reports, and nobody waits"
_LAST_EVENT: Final = "between two of them there is no datapoint: the last one stands until the next"
_IDLE_SERVICE: Final = "without a datapoint the service had nothing to count"

_IDLE_GPU_PERCENT: Final = 50.0
_WAIT_POINTS: Final = 5.0
_WAIT_LEAST: Final = 10.0
_READ_SHARE: Final = 0.5
_LIMIT_PERCENT: Final = 90.0
_VARIATION_PERCENT: Final = 25.0
_CPU_PERCENT: Final = 80.0
_EXPORT_AGE_S: Final = 3600.0
IMPORT_AGE_S: Final = 86_400.0
_THROTTLED_PERCENT: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDefinition:
    """One alarm.

    Attributes:
        id: Its name behind the workload's, and of its page ``docs/alarms/ID.md``.
        title: What it says, in a few words.
        reason: Why that matters, one sentence.
        look: What to look at first, one sentence.
        watch: What is watched; None where the subject has no such thing.
        threshold: The value; None where what it follows from is not known, and then there is no alarm.
        because: The value and where it comes from, in words.
        comparison: ``GreaterThanThreshold`` or ``LessThanThreshold``.
        datapoints: How many datapoints have to be beyond the value ...
        periods: ... of the last so many.
        missing: What a missing datapoint counts as, in CloudWatch's word.
        missing_because: Why.
        tells: Whether somebody is told. The others are evidence: by themselves they are storage that is well used.
    """

    id: str
    title: str
    reason: str
    look: str
    watch: Callable[[Subject], Math | None]
    threshold: Callable[[Expected], float | None]
    because: str
    comparison: str = ABOVE
    datapoints: int = 10
    periods: int = 15
    missing: str = "notBreaching"
    missing_because: str = _NOT_TRAINING
    tells: bool = True


def _of(value: float | None, factor: float) -> float | None:
    # Nothing planned is no line to be under.
    return value * factor if value else None


def _constant(value: float) -> Callable[[Expected], float | None]:
    return lambda _: value


def _wait(expected: Expected) -> float | None:
    return max(_WAIT_LEAST, (expected.data_wait_percent or 0.0) + _WAIT_POINTS)


def _opens(expected: Expected) -> float | None:
    # The query counts a minute.
    return _of(expected.file_opens_limit_per_s, 60 * _LIMIT_PERCENT / 100)


def _free(expected: Expected) -> float | None:
    if not expected.storage_capacity_gib or not expected.warn_when_free_below:
        return None
    return float(round(expected.storage_capacity_gib * GIB * expected.warn_when_free_below))


def _nodes(expected: Expected) -> float | None:
    return float(expected.instance_count) if expected.instance_count else None


def _reporting(expected: Expected) -> float | None:
    # A node that starts its minute late is half a node in a mean of five minutes.
    return expected.instance_count - 0.5 if expected.instance_count else None


ALARMS: Final[tuple[AlarmDefinition, ...]] = (
    AlarmDefinition(
        id="gpu-utilisation-low",
        title="GPUs are hardly used",
        reason="The fleet is paid for by the hour, and its GPUs do little.",
        look="Whether gpus-wait-for-data or checkpoint-save-slow stands too; if neither does, it is not storage.",
        watch=watches.gpu_utilisation,
        threshold=_constant(_IDLE_GPU_PERCENT),
        because="50 %, mean over all GPUs: this product's choice, no plan predicts it",
        comparison=BELOW,
        datapoints=15,
        periods=20,
        missing_because="without a datapoint no node reports; metrics-missing says that",
    ),
    AlarmDefinition(
        id="gpus-wait-for-data",
        title="GPUs wait for data",
        reason="Ranks ask for a batch that is not there, for more of their time than the plan predicts.",
        look="Which of storage-throughput-at-limit, metadata-at-limit, mds-cpu-high and s3-throttled stands with it.",
        watch=watches.data_wait,
        threshold=_wait,
        because="the share that the plan predicts and 5 points more, at least 10 % of the time",
    ),
    AlarmDefinition(
        id="read-throughput-low",
        title="Training reads less than the plan says",
        reason="Batches come in slower than the job was sized for.",
        look="Whether the GPUs wait for data; if they do not, the job needs less than its workload file says.",
        watch=watches.training_read,
        threshold=lambda expected: _of(expected.read_mb_per_s, _READ_SHARE),
        because="half of the plan's read demand",
        comparison=BELOW,
        datapoints=15,
        periods=20,
    ),
    AlarmDefinition(
        id="storage-throughput-at-limit",
        title="Storage gives all that it can",
        reason="Reads or writes are close to what the storage, or the clients of the nodes, can move.",
        look="Whether the GPUs wait for data; if they do not, the storage is well used and nothing is wrong.",
        watch=watches.throughput,
        threshold=lambda expected: _LIMIT_PERCENT if expected.limit_mb_per_s else None,
        because="90 % of the plan's limit",
        missing_because="without a datapoint nothing was moved",
        tells=False,
    ),
    AlarmDefinition(
        id="metadata-at-limit",
        title="Metadata servers open all the files that they can",
        reason="Many small files: opens are close to what the metadata IOPS serve, whatever the throughput is.",
        look="The open rate against the plan's, and how large the files are.",
        watch=watches.file_opens,
        threshold=_opens,
        because="90 % of the opens that the plan's metadata IOPS serve",
        missing_because="without a datapoint no file was opened",
        tells=False,
    ),
    AlarmDefinition(
        id="mds-cpu-high",
        title="A metadata server is busy",
        reason="Opens, listings and lookups queue when the processor of a metadata server is busy.",
        look="Open rate and metadata operations; then which program lists or stats folders.",
        watch=watches.metadata_cpu,
        threshold=_constant(_CPU_PERCENT),
        because="80 % of the CPU of the busiest server: this product's choice",
        missing_because="without a datapoint FSx has nothing to say of its servers",
        tells=False,
    ),
    AlarmDefinition(
        id="s3-throttled",
        title="S3 answers with errors of its own",
        reason="S3 fails or throttles (503) requests to the lake; clients wait and try again.",
        look="How many requests a prefix gets: S3 scales by prefix, and takes minutes for it.",
        watch=watches.throttled,
        threshold=_constant(_THROTTLED_PERCENT),
        because="1 % of the requests: this product's choice",
        missing_because="without requests there is nothing to fail",
    ),
    AlarmDefinition(
        id="checkpoint-save-slow",
        title="Saving a checkpoint takes too long",
        reason="While a save holds the loop up, every GPU stands still.",
        look="Write throughput against the plan's during the save; then whether saves are written by all ranks.",
        watch=watches.save,
        threshold=lambda expected: expected.slowest_save_s,
        because="checkpoints.max_write_time of the workload file, else twice what the plan predicts",
        datapoints=1,
        periods=1,
        missing="ignore",
        missing_because=_LAST_EVENT,
    ),
    AlarmDefinition(
        id="restore-slow",
        title="Restoring a checkpoint takes too long",
        reason="After a fault the whole fleet waits until the checkpoint has been read.",
        look="Whether the checkpoint was in the hot tier or had to come from S3.",
        watch=watches.restore,
        threshold=lambda expected: expected.max_restore_s,
        because="checkpoints.max_restore_time of the workload file",
        datapoints=1,
        periods=1,
        missing="ignore",
        missing_because=_LAST_EVENT,
    ),
    AlarmDefinition(
        id="restore-drill-slow",
        title="A drill took longer than a restore may",
        reason="The next restore of the fleet takes as long as the drill did.",
        look="The drill's own report: which files were slow, and whether their data was in the hot tier.",
        watch=watches.drill,
        threshold=lambda expected: expected.max_restore_s,
        because="checkpoints.max_restore_time of the workload file",
        datapoints=1,
        periods=1,
        missing="ignore",
        missing_because=_LAST_EVENT,
    ),
    AlarmDefinition(
        id="step-time-varies",
        title="Steps take unequal time",
        reason="All ranks wait for the slowest one in each step.",
        look="Which node stands out among the nodes of the dashboard.",
        watch=watches.variation,
        threshold=_constant(_VARIATION_PERCENT),
        because="25 % standard deviation of the mean: this product's choice",
        datapoints=15,
        periods=20,
    ),
    AlarmDefinition(
        id="idle-gpus-cost-more-than-storage",
        title="Idle GPUs cost more than the storage",
        reason="Time in which the fleet waits for storage is worth more than the storage; a larger one may pay.",
        look="Whether the time is lost to data or to checkpoints; then what the next size costs.",
        watch=watches.idle_cost,
        threshold=lambda expected: expected.storage_usd_per_hour or None,
        because="the plan's storage price per hour",
        datapoints=40,
        periods=60,
    ),
    AlarmDefinition(
        id="export-queue-old",
        title="New files do not reach S3",
        reason="What is not exported is lost with the file system.",
        look="The lifecycle of the link, then the rate of changed files against what one link exports.",
        watch=watches.export_age,
        threshold=_constant(_EXPORT_AGE_S),
        because="1 hour: this product's choice",
        datapoints=5,
        periods=5,
        missing_because="without a datapoint nothing is queued",
    ),
    AlarmDefinition(
        id="import-queue-old",
        title="New objects do not reach the file system",
        reason="FSx stops importing, and loses changes, when the queue gets 14 days old.",
        look="The lifecycle of the link, then how fast objects in the bucket change.",
        watch=watches.import_age,
        threshold=_constant(IMPORT_AGE_S),
        because="1 day, of the 14 after which FSx stops",
        datapoints=5,
        periods=5,
        missing_because="without a datapoint nothing is queued",
    ),
    AlarmDefinition(
        id="association-broken",
        title="A link to S3 has stopped",
        reason="FSx carries nothing over a link that is MISCONFIGURED or FAILED, and no metric of FSx says so.",
        look="The failure details of the link.",
        watch=watches.broken_links,
        threshold=_constant(0.0),
        because="one link or more whose lifecycle is MISCONFIGURED or FAILED",
        datapoints=1,
        periods=1,
        missing="missing",
        missing_because="links are looked at every 5 minutes; without a look the alarm says that it does not know",
    ),
    AlarmDefinition(
        id="free-capacity-low",
        title="The file system gets full",
        reason='Files on a full storage target get "no space left" while the sum still looks well.',
        look="What is largest, and whether checkpoints are pruned.",
        watch=watches.free_space,
        threshold=_free,
        because="lifecycle.warn_when_free_below of the workload file, a tenth of the capacity when left out, "
        "if every storage target were as full as the fullest",
        comparison=BELOW,
        datapoints=5,
        periods=5,
        missing="ignore",
        missing_because="a gap in the metric is no free space: the alarm stays as it is",
    ),
    AlarmDefinition(
        id="clients-missing",
        title="Nodes have lost the file system",
        reason="Fewer clients are connected than the fleet has nodes; on the others the mount is gone.",
        look="Which node is missing: training-storage status, then the mounts of that node.",
        watch=watches.clients,
        threshold=_nodes,
        because="the plan's number of nodes",
        comparison=BELOW,
        datapoints=10,
        periods=10,
        missing="missing",
        missing_because="without a datapoint FSx has not said how many there are: the alarm does not know",
    ),
    AlarmDefinition(
        id="s3-files-import-failures",
        title="Objects did not become files",
        reason="Nodes do not see data that is in the bucket.",
        look="Names of the objects and rights of the role of the S3 file system.",
        watch=watches.files_import_failures,
        threshold=_constant(0.0),
        because="one object or more",
        datapoints=1,
        periods=5,
        missing_because=_IDLE_SERVICE,
    ),
    AlarmDefinition(
        id="s3-files-export-failures",
        title="Files did not become objects",
        reason="What nodes wrote is in the file system alone.",
        look="Rights and key of the bucket, then names of the files.",
        watch=watches.files_export_failures,
        threshold=_constant(0.0),
        because="one file or more",
        datapoints=1,
        periods=5,
        missing_because=_IDLE_SERVICE,
    ),
    AlarmDefinition(
        id="metrics-missing",
        title="Nodes do not report",
        reason="Alarms on what nodes write are silent when nobody writes.",
        look="Whether the nodes run; then the collector and the CloudWatch agent on one that is silent.",
        watch=watches.reporting_nodes,
        threshold=_reporting,
        because="the plan's number of nodes, less half a one, in a mean of 5 minutes",
        comparison=BELOW,
        datapoints=3,
        periods=3,
        missing="breaching",
        missing_because="no datapoint at all is what this alarm is for",
    ),
)
"""By importance for the GPUs."""

COMPOSITE: Final = "gpus-wait-for-storage"
COMPOSITE_TITLE: Final = "GPUs wait for storage"
WAITING: Final = "gpus-wait-for-data"
EVIDENCE: Final = ("storage-throughput-at-limit", "metadata-at-limit", "mds-cpu-high", "s3-throttled")
SAVING: Final = "checkpoint-save-slow"
COMPOSITE_BORDER: Final = (
    f"`{WAITING}` stands together with one of {', '.join(f'`{each}`' for each in EVIDENCE)}; or `{SAVING}` stands, "
    "where saves hold the loop up."
)
_WORDS: Final = {
    "notBreaching": "counts as none beyond it",
    "breaching": "counts as one beyond it",
    "ignore": "leaves the alarm as it is",
    "missing": "makes the alarm say that it does not know",
}


def border_text(alarm: AlarmDefinition) -> str:
    """Return when an alarm rises, in the words of its page.

    Args:
        alarm: The alarm.
    """
    side = "Above" if alarm.comparison == ABOVE else "Below"
    of = "the last datapoint" if alarm.periods == 1 else f"{alarm.datapoints} of the last {alarm.periods} datapoints"
    told = "" if alarm.tells else " Nobody is told: it is evidence."
    return f"{side}: {alarm.because}; in {of}. Missing data {_WORDS[alarm.missing]}: {alarm.missing_because}.{told}"
