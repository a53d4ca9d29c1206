"""AWS in memory, for thousands of runs: S3, FSx with real files, CloudWatch, SSM, EC2, Auto Scaling, CloudFormation.

It answers as the services answer: error codes, conditional writes, listings in pages, tasks that take looks to end.
What it does not know raises ``AttributeError`` or ``KeyError``, so that no test passes on an answer that nobody gave.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.life.fake_machines import CloudFormation, Machines, Sts
from tests.life.fake_s3 import S3, error, moment

START = 1_800_000_000.0
"""Where the clock of a fake begins, seconds since 1970."""


class Fsx:
    """The FSx client. A file system's files lie in a real directory."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self.systems: dict[str, dict[str, Any]] = {}
        self.links: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.failing: dict[str, str] = {}
        """Files of the next export that fail, by path below the mount, with the code."""
        self.fail_next_task = False
        self.looks = 1
        """Looks that a task stays EXECUTING for."""
        self._count = 0

    def make(self, directory: Path, links: list[tuple[str, str, str, bool]]) -> str:
        """Make a file system: links are (path, bucket, prefix, exports by itself)."""
        self._count += 1
        name = f"fs-{self._count:017x}"
        self.systems[name] = {
            "FileSystemId": name,
            "Lifecycle": "AVAILABLE",
            "CreationTime": moment(self._aws.clock()),
            "StorageCapacity": 1200,
            "FileSystemType": "LUSTRE",
            "directory": directory,
        }
        for number, (path, bucket, prefix, exports) in enumerate(links, 1):
            self.links.append(
                {
                    "AssociationId": f"dra-{self._count:08x}{number:09x}",
                    "FileSystemId": name,
                    "FileSystemPath": path,
                    "DataRepositoryPath": f"s3://{bucket}/{prefix}",
                    "Lifecycle": "AVAILABLE",
                    "S3": {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}} if exports else {},
                }
            )
        return name

    def _system(self, name: str, operation: str) -> dict[str, Any]:
        if name not in self.systems:
            raise error("FileSystemNotFound", operation)
        return self.systems[name]

    def describe_file_systems(self, *, FileSystemIds: list[str] | None = None, **_given: Any) -> dict[str, Any]:
        names = FileSystemIds or list(self.systems)
        shown = [self._system(name, "DescribeFileSystems") for name in names]
        return {"FileSystems": [{key: value for key, value in each.items() if key != "directory"} for each in shown]}

    def describe_data_repository_associations(self, **given: Any) -> dict[str, Any]:
        return {"Associations": [dict(each) for each in self.links if _passes(each, given)]}

    def describe_data_repository_tasks(self, **given: Any) -> dict[str, Any]:
        wanted = given.get("TaskIds")
        found = [task for task in self.tasks if (wanted is None or task["TaskId"] in wanted) and _passes(task, given)]
        if wanted and not found:
            raise error("DataRepositoryTaskNotFound", "DescribeDataRepositoryTasks")
        shown = [{key: value for key, value in task.items() if not key.startswith("_")} for task in found]
        for task in found:
            self._step(task)
        return {"DataRepositoryTasks": shown}

    def create_data_repository_task(self, *, FileSystemId: str, Type: str, **given: Any) -> dict[str, Any]:
        self._system(FileSystemId, "CreateDataRepositoryTask")
        assert "Report" in given, "Report is required"
        assert len(given.get("Paths", ())) <= 100
        token = given.get("ClientRequestToken")
        same = next((task for task in self.tasks if token and task["_token"] == token), None)
        if same is None:
            if any(task["FileSystemId"] == FileSystemId and task["Lifecycle"] in _RUNNING for task in self.tasks):
                raise error("DataRepositoryTaskExecuting", "CreateDataRepositoryTask")
            if Type == "EXPORT_TO_REPOSITORY" and any(
                each["FileSystemId"] == FileSystemId and (each["S3"].get("AutoExportPolicy") or {}).get("Events")
                for each in self.links
            ):
                raise error("BadRequest", "CreateDataRepositoryTask", "export tasks cannot run beside automatic export")
            self._count += 1
            same = {
                "TaskId": f"task-{self._count:017x}",
                "FileSystemId": FileSystemId,
                "Type": Type,
                "Lifecycle": "PENDING",
                "Paths": list(given.get("Paths", ())),
                "Report": given["Report"],
                "Tags": given.get("Tags", []),
                "CreationTime": moment(self._aws.clock()),
                "_token": token,
                "_looks": self.looks,
            }
            self.tasks.append(same)
        return {"DataRepositoryTask": {key: value for key, value in same.items() if not key.startswith("_")}}

    def _step(self, task: dict[str, Any]) -> None:
        if task["Lifecycle"] == "PENDING":
            task["Lifecycle"] = "EXECUTING"
        elif task["Lifecycle"] == "EXECUTING":
            task["_looks"] -= 1
            if task["_looks"] <= 0:
                self._end(task)

    def _end(self, task: dict[str, Any]) -> None:
        if self.fail_next_task:
            self.fail_next_task = False
            task["Lifecycle"] = "FAILED"
            task["FailureDetails"] = {"Message": "an internal error"}
            task["Status"] = {"TotalCount": 0, "SucceededCount": 0, "FailedCount": 0}
            return
        done, failed, missing = 0, [], []
        if task["Type"] == "EXPORT_TO_REPOSITORY":
            for path in task["Paths"] or [""]:
                there = self.files(task["FileSystemId"], path)
                if there is None:
                    missing.append(path)
                for each in there or ():
                    code = self.failing.pop(each, "")
                    if code:
                        failed.append((each, code))
                    else:
                        self.export(task["FileSystemId"], each)
                        done += 1
        task["Status"] = {"TotalCount": done + len(failed), "SucceededCount": done, "FailedCount": len(failed)}
        task["EndTime"] = moment(self._aws.clock())
        task["Lifecycle"] = "FAILED" if failed or missing else "SUCCEEDED"
        if missing:
            task["FailureDetails"] = {"Message": f"no such path: {', '.join(missing)}"}
        elif failed:
            task["FailureDetails"] = {"Message": f"{len(failed)} files failed"}
            self._report(task, failed)

    def _report(self, task: dict[str, Any], failed: list[tuple[str, str]]) -> None:
        report = task["Report"]
        if not report.get("Enabled"):
            return
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(["FilePath", "FileStatus", "ErrorCode"])
        rows.writerows([path, "FAILED", code] for path, code in failed)
        bucket, _, prefix = report["Path"].removeprefix("s3://").partition("/")
        key = f"{prefix.rstrip('/')}/task-{task['TaskId'].removeprefix('task-')}/failures.csv"
        self._aws.s3.put_object(Bucket=bucket, Key=key, Body=text.getvalue())

    def files(self, file_system_id: str, path: str = "") -> list[str] | None:
        """Return the files below a path of a file system, sorted; None where there is nothing."""
        root: Path = self.systems[file_system_id]["directory"]
        base = root / path.strip("/")
        if base.is_file():
            return [base.relative_to(root).as_posix()]
        if not base.is_dir():
            return None
        return sorted(each.relative_to(root).as_posix() for each in base.rglob("*") if each.is_file())

    def export(self, file_system_id: str, path: str) -> None:
        """Export one file as FSx does; a file that did not change is left alone."""
        root: Path = self.systems[file_system_id]["directory"]
        for link in self.links:
            base = link["FileSystemPath"].strip("/")
            if link["FileSystemId"] != file_system_id or not (base == "" or path.startswith(base + "/")):
                continue
            bucket, _, prefix = link["DataRepositoryPath"].removeprefix("s3://").partition("/")
            key = prefix + path[len(base) :].lstrip("/")
            about = (root / path).stat()
            metadata = {
                "file-permissions": f"0{about.st_mode:o}",
                "file-owner": str(about.st_uid),
                "file-group": str(about.st_gid),
                "file-mtime": f"{about.st_mtime_ns}ns",
                "user-agent": "aws-fsx-lustre",
            }
            there = self._aws.s3.buckets[bucket].now().get(key)
            same = there is not None and there.metadata.get("file-mtime") == metadata["file-mtime"]
            if not same or there is None or len(there.body) != about.st_size:
                self._aws.s3._put(bucket, key, (root / path).read_bytes(), {"Metadata": metadata}, "PutObject")
            return


_RUNNING = ("PENDING", "EXECUTING", "CANCELING")


def _passes(item: dict[str, Any], given: dict[str, Any]) -> bool:
    names = {"file-system-id": "FileSystemId", "task-lifecycle": "Lifecycle"}
    return all(item[names[each["Name"]]] in each["Values"] for each in given.get("Filters") or ())


class CloudWatch:
    """The CloudWatch client: a zero each minute of a file system's life, and what tests record."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self.lag = 120.0
        """Seconds that datapoints come late."""
        self.values: list[tuple[str, dict[str, str], float, float]] = []
        """Name, dimensions, time, value."""
        self.put: list[dict[str, Any]] = []
        self.silent = False
        """No datapoints at all."""

    def record(self, name: str, file_system_id: str, value: float, **dimensions: str) -> None:
        """Record a value now."""
        self.values.append((name, {"FileSystemId": file_system_id, **dimensions}, self._aws.clock(), value))

    def get_metric_data(self, *, MetricDataQueries: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
        start, end = _seconds(given["StartTime"]), _seconds(given["EndTime"])
        return {"MetricDataResults": [self._result(query, start, end) for query in MetricDataQueries], "Messages": []}

    def _result(self, query: dict[str, Any], start: float, end: float) -> dict[str, Any]:
        stat = query["MetricStat"]
        metric, period = stat["Metric"], stat["Period"]
        dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
        times, values = [], []
        for at, value in self._points(metric["MetricName"], dimensions, stat["Stat"], period, start, end):
            times.append(moment(at))
            values.append(value)
        if given_order := query.get("ScanBy"):
            assert given_order
        return {"Id": query["Id"], "Timestamps": times[::-1], "Values": values[::-1], "StatusCode": "Complete"}

    def _points(
        self, name: str, dimensions: dict[str, str], stat: str, period: int, start: float, end: float
    ) -> Iterator[tuple[float, float]]:
        system = self._aws.fsx.systems.get(dimensions.get("FileSystemId", ""))
        if self.silent or system is None:
            return
        begin = max(start, system["CreationTime"].timestamp())
        at = begin - begin % period
        while at < min(end, self._aws.clock() - self.lag):
            inside = [
                value
                for metric, where, moment, value in self.values
                if metric == name and where == dimensions and at <= moment < at + period
            ]
            if inside or name in ("DataWriteBytes", "DataReadBytes", "ClientConnections"):
                yield at, (sum(inside) if stat == "Sum" else max(inside, default=0.0))
            at += period

    def get_metric_statistics(self, **given: Any) -> dict[str, Any]:
        dimensions = {each["Name"]: each["Value"] for each in given["Dimensions"]}
        stat = given["Statistics"][0]
        points = self._points(
            given["MetricName"],
            dimensions,
            stat,
            given["Period"],
            _seconds(given["StartTime"]),
            _seconds(given["EndTime"]),
        )
        return {"Datapoints": [{"Timestamp": moment(at), stat: value} for at, value in points]}

    def put_metric_data(self, **given: Any) -> dict[str, Any]:
        self.put.append(given)
        return {}


def _seconds(moment: Any) -> float:
    return float(moment.timestamp()) if hasattr(moment, "timestamp") else float(moment)


class FakeAws:
    """AWS in memory; ``fake("s3")`` returns a client, ``fake.s3`` the same with helpers for tests.

    Attributes:
        now: The clock, seconds since 1970. ``sleep`` moves it.
    """

    def __init__(self) -> None:
        self.now = START
        self.s3 = S3(self)
        self.fsx = Fsx(self)
        self.cloudwatch = CloudWatch(self)
        self.machines = Machines(self)
        self.cloudformation = CloudFormation(self)
        self._clients: dict[str, Any] = {
            "s3": self.s3,
            "fsx": self.fsx,
            "cloudwatch": self.cloudwatch,
            "ec2": self.machines,
            "autoscaling": self.machines,
            "ssm": self.machines,
            "cloudformation": self.cloudformation,
            "sts": Sts(),
        }

    def __call__(self, service: str) -> Any:
        return self._clients[service]

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def write(self, path: Path, body: bytes, file_system_id: str = "") -> None:
        """Write a file as a client of the file system does, at the fake's time and seen by its metrics."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        stamp = int(self.now * 1e9)
        for each in (path, path.parent):  # a folder changes with the names in it
            os.utime(each, ns=(stamp, stamp))
        if file_system_id:
            self.cloudwatch.record("DataWriteBytes", file_system_id, float(len(body)))
