"""What a test says about emulated storage, and what it can look at: files, tasks, links, objects, time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from training_storage.emulator import world
from training_storage.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from training_storage.emulator.file_system import EmulatedFileSystem


class Storage:
    """The part of an emulator that is about storage.

    Attributes:
        account: Account that callers without another one belong to.
        region: Region that is meant where none is named.
    """

    account: str
    region: str

    def file_system(self, file_system_id: str, *, region: str | None = None) -> EmulatedFileSystem:
        """Return the files of an emulated Lustre file system.

        Args:
            file_system_id: The file system.
            region: Region; the emulator's when left out.

        Raises:
            EmulatorError: There is no such file system.
        """
        from training_storage.emulator.file_system import EmulatedFileSystem

        return EmulatedFileSystem(self._fsx(file_system_id, region), file_system_id)

    def settle(self, file_system_id: str, *, region: str | None = None) -> list[str]:
        """Do what FSx does by itself after a while: finish tasks that are not held, export and import by the links.

        Args:
            file_system_id: The file system.
            region: Region; the emulator's when left out.

        Returns:
            What automatic export and import did, such as ``export checkpoints/step-1/model.pt``.

        Raises:
            EmulatorError: There is no such file system.
        """
        return self.file_system(file_system_id, region=region).settle()

    @contextmanager
    def settling(self, file_system_id: str, *, each: float = 0.05, region: str | None = None) -> Iterator[None]:
        """Settle a file system again and again in the background, while processes wait for FSx.

        Args:
            file_system_id: The file system.
            each: Seconds between two rounds.
            region: Region; the emulator's when left out.

        Raises:
            EmulatorError: There is no such file system.
        """
        files = self.file_system(file_system_id, region=region)
        with _again_and_again(files.settle, each):
            yield

    @contextmanager
    def settling_all(self, *, each: float = 1.0) -> Iterator[None]:
        """Settle all file systems again and again in the background, also those that come later.

        Args:
            each: Seconds between two rounds.
        """
        from moto.fsx.models import fsx_backends

        from training_storage.emulator.file_system import EmulatedFileSystem

        def rounds() -> None:
            for account in list(fsx_backends.values()):
                for backend in list(account.values()):
                    for file_system_id in list(backend.file_systems):
                        EmulatedFileSystem(backend, file_system_id).settle()

        with _again_and_again(rounds, each):
            yield

    def task_files(self, file_system_id: str, *, total: int, failed: int = 0, region: str | None = None) -> None:
        """Say how many files later data repository tasks on a file system report, and how many of them fail.

        They touch no file then: for tests of what reports on tasks.

        Args:
            file_system_id: The file system.
            total: Files that a task counts.
            failed: Files that it reports as failed; any makes the task end in FAILED.
            region: Region; the emulator's when left out.
        """
        self._behaviour(file_system_id, region).counts = (total, failed)

    def fail_files(self, file_system_id: str, codes: Mapping[str, str], *, region: str | None = None) -> None:
        """Let files fail in every task, and in automatic export and import, until something else is said.

        Args:
            file_system_id: The file system.
            codes: Error code by path below the mount, such as ``{"checkpoints/a.pt": "S3AccessDenied"}``; empty: none.
            region: Region; the emulator's when left out.
        """
        behaviour = self._behaviour(file_system_id, region)
        behaviour.failing = {path.strip("/"): code for path, code in codes.items()}

    def fail_task(
        self, file_system_id: str, message: str = "Internal error", *, count: int = 1, region: str | None = None
    ) -> None:
        """Let the next tasks on a file system end in FAILED without touching a file.

        Args:
            file_system_id: The file system.
            message: What ``FailureDetails`` says.
            count: How many tasks.
            region: Region; the emulator's when left out.
        """
        self._behaviour(file_system_id, region).failures += [message] * count

    def hold_tasks(self, file_system_id: str, held: bool = True, *, region: str | None = None) -> None:
        """Keep tasks of a file system executing, or let them go on.

        Args:
            file_system_id: The file system.
            held: Whether they stay EXECUTING.
            region: Region; the emulator's when left out.
        """
        self._behaviour(file_system_id, region).held = held

    def slow_tasks(
        self, file_system_id: str, *, looks: int = 1, seconds: float = 0.0, region: str | None = None
    ) -> None:
        """Say how long tasks of a file system run at least.

        Args:
            file_system_id: The file system.
            looks: How often a task is seen EXECUTING.
            seconds: How long it executes, in the emulator's time (``advance``).
            region: Region; the emulator's when left out.
        """
        behaviour = self._behaviour(file_system_id, region)
        behaviour.looks, behaviour.seconds = looks, seconds

    def record_io(
        self,
        file_system_id: str,
        *,
        write_bytes: float = 0,
        read_bytes: float = 0,
        connections: float | None = None,
        at: float | None = None,
        region: str | None = None,
    ) -> None:
        """Let CloudWatch know what clients did in one minute; files that a test writes are not known by themselves.

        Args:
            file_system_id: The file system.
            write_bytes: Added to what was written in that minute.
            read_bytes: Added to what was read in that minute.
            connections: Clients that were connected; as it was when left out.
            at: A moment in that minute, seconds since 1970; now when left out.
            region: Region; the emulator's when left out.
        """
        self.record_metric(file_system_id, "DataWriteBytes", write_bytes, at=at, region=region)
        self.record_metric(file_system_id, "DataReadBytes", read_bytes, at=at, region=region)
        if connections is not None:
            self.record_metric(file_system_id, "ClientConnections", connections, at=at, region=region)

    def record_metric(
        self, file_system_id: str, name: str, value: float, *, at: float | None = None, region: str | None = None
    ) -> None:
        """Let CloudWatch know the value of any metric of a file system in one minute.

        Args:
            file_system_id: The file system.
            name: Metric, such as ``FreeDataStorageCapacity``; ``AgeOfOldestQueuedMessage/AutoExport`` with its
                publisher.
            value: Bytes and operations add up; everything else takes the place of what was there.
            at: A moment in that minute, seconds since 1970; now when left out.
            region: Region; the emulator's when left out.
        """
        from training_storage.emulator.services import fsx_metrics

        moment = world.now() if at is None else at
        fsx_metrics.record(self._fsx(file_system_id, region), file_system_id, name, value, moment)

    def _behaviour(self, file_system_id: str, region: str | None) -> Any:
        from training_storage.emulator.services import fsx_repository

        return fsx_repository.store(self._fsx(file_system_id, region)).behaviour(file_system_id)

    def _fsx(self, file_system_id: str, region: str | None) -> Any:
        from moto.fsx.models import fsx_backends

        backend = fsx_backends[self.account][region or self.region]
        if file_system_id in backend.file_systems:
            return backend
        for account in fsx_backends.values():
            for other in account.values():
                if region in (None, other.region_name) and file_system_id in other.file_systems:
                    return other
        raise EmulatorError(f"there is no file system {file_system_id}")

    def lifecycle_works(self, bucket: str) -> bool:
        """Say whether a directory bucket's policy lets S3 apply lifecycle rules; otherwise they do nothing.

        Args:
            bucket: Name of the directory bucket.

        Raises:
            EmulatorError: There is no such directory bucket.
        """
        from training_storage.emulator.services import directory_bucket_lifecycle

        return directory_bucket_lifecycle.works(self._directory_bucket(bucket)[1])

    def expire_objects(self, bucket: str, days: int) -> list[str]:
        """Let the lifecycle of a directory bucket run as if everything in it were some days old.

        Nothing happens where the bucket's policy does not let S3's lifecycle in, as on AWS.

        Args:
            bucket: Name of the directory bucket.
            days: Age of all objects and of all incomplete uploads, in days.

        Returns:
            Keys of the objects that were deleted and of the uploads that were aborted.

        Raises:
            EmulatorError: There is no such directory bucket.
        """
        from training_storage.emulator.services import directory_bucket_lifecycle

        return directory_bucket_lifecycle.expire(*self._directory_bucket(bucket), days)

    def _directory_bucket(self, name: str) -> tuple[Any, Any]:
        from moto.s3.models import s3_backends

        from training_storage.emulator.services import directory_bucket_rules as rules

        if name not in s3_backends.bucket_accounts or rules.zone_of(name) is None:
            raise EmulatorError(f"there is no directory bucket {name}")
        partition, account = s3_backends.bucket_accounts[name]
        backend = s3_backends[account][partition]
        return backend, backend.buckets[name]

    def set_pending_exports(self, file_system_id: str, count: int, *, region: str | None = None) -> None:
        """Say how many files of an S3 Files file system wait for export to the bucket.

        While any do, the file system cannot be deleted; the metric ``PendingExports`` shows how many.

        Args:
            file_system_id: The file system, by id or ARN.
            count: Files that wait; 0 when all is exported.
            region: Region to look in; all of them when left out.

        Raises:
            EmulatorError: There is no such file system.
        """
        from training_storage.emulator.services.s3_files import s3_files_backends

        key = file_system_id.rsplit("/", 1)[-1]
        backends = [backend for account in s3_files_backends.values() for backend in account.values()]
        found = [item for item in backends if key in item.file_systems and region in (None, item.region_name)]
        if not found:
            raise EmulatorError(f"there is no S3 Files file system {file_system_id}")
        found[0].pending_exports[key] = count


@contextmanager
def _again_and_again(action: Callable[[], Any], each: float) -> Iterator[None]:
    stop = threading.Event()

    def rounds() -> None:
        while not stop.wait(each):
            # a file that goes, or a file system, while it is looked at; the next round sees it as it is then
            with suppress(OSError, KeyError, RuntimeError):
                action()

    thread = threading.Thread(target=rounds, name="settling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)
