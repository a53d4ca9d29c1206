"""Promotion where FSx exports by itself: wait until it has, for no task can run beside it."""

from __future__ import annotations

from datetime import datetime, timezone

from .promotion import Job, PromotionError, Sums, failed, prove

POLL_S = 30.0
PATIENCE_S = 1_800.0
"""Seconds without any progress after which the next run goes on; the queue of a million files takes hours."""
_LATE_S = 900.0
"""How old a datapoint may be to speak of the queue: FSx publishes one a minute, some minutes late."""


def wait_for_export(job: Job) -> Sums:
    """Wait until every file of a checkpoint is in S3 and the export queue is empty.

    Raises:
        PromotionError: Nothing moved for half an hour.
        ClientError: AWS refused or failed.
    """
    end = job.clock() + PATIENCE_S
    best: tuple[int, float] | None = None
    wrong: dict[str, str] | None = None
    while True:
        if wrong is None or wrong:  # what was proven once is proven again at the end, not on each look at the queue
            wrong = prove(job, job.checkpoint.files, {})[1]
        age = queue_age(job) if not wrong else None
        if not wrong and not age:
            return {}
        state = (len(wrong), age or 0.0)
        if best is None or state < best:
            best, end = state, job.clock() + PATIENCE_S
        if job.clock() >= end:
            if wrong:
                raise failed(job.checkpoint.path, "auto-export", wrong, "FSx has not exported it")
            raise PromotionError(
                f"{job.checkpoint.path}: the export queue of {job.settings.hot_tier_id} is not empty; its oldest "
                f"message is {age:.0f} s old; the next run looks again"
            )
        job.tell("waiting for the export queue", missing=len(wrong), oldest_message_s=age)
        job.sleep(POLL_S)


def queue_age(job: Job) -> float | None:
    """Return the age of the oldest message of the export queue in seconds; None where nothing waits or nobody knows.

    Source: AWS/FSx ``AgeOfOldestQueuedMessage``, dimensions FileSystemId and Publisher (facts of CloudWatch).

    Raises:
        ClientError: CloudWatch refused or failed.
    """
    now = job.clock()
    answer = job.aws("cloudwatch").get_metric_statistics(
        Namespace="AWS/FSx",
        MetricName="AgeOfOldestQueuedMessage",
        Dimensions=[
            {"Name": "FileSystemId", "Value": job.settings.hot_tier_id},
            {"Name": "Publisher", "Value": "AutoExport"},
        ],
        StartTime=datetime.fromtimestamp(now - _LATE_S, timezone.utc),
        EndTime=datetime.fromtimestamp(now, timezone.utc),
        Period=60,
        Statistics=["Maximum"],
    )
    points = sorted(answer.get("Datapoints", ()), key=lambda each: each["Timestamp"])
    return float(points[-1]["Maximum"]) if points else None
