"""Amazon S3 Files, which moto lacks: file systems over a bucket, with mount targets, access points and policies.

Everything is there at once, except a file system whose role is not ready: it stays in ``creating`` and says why. No
data is synchronized; how much waits for export is what a test says.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.common_models import CloudWatchMetricProvider
from moto.core.utils import utcnow

from training_storage.emulator.services.s3_files_checks import (
    SERVICE,
    bucket_name,
    check_synchronization,
    conflict,
    find_bucket,
    invalid,
    not_found,
    role_problem,
    rule_name,
)
from training_storage.emulator.services.s3_files_network import Network

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-quotas.html
_LONGEST_POLICY = 20000
# What a file system imports at once, and for how long it keeps data that nobody reads, unless it is told otherwise:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-performance.html
_DEFAULT_IMPORT_BYTES = 128 * 1024
_DEFAULT_EXPIRATION_DAYS = 30

Shown = dict[str, Any]


class S3FilesBackend(BaseBackend, CloudWatchMetricProvider):
    """What S3 Files knows in one account and region.

    Attributes:
        file_systems: File systems by id, as the API shows them.
        synchronization: Rules of synchronization by file system.
        policies: Policies by file system.
        pending_exports: Files that wait for export, by file system.
        mount_targets: Mount targets by id.
        access_points: Access points by id.
    """

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.file_systems: dict[str, Shown] = {}
        self.synchronization: dict[str, Shown] = {}
        self.policies: dict[str, str] = {}
        self.pending_exports: dict[str, int] = {}
        self.mount_targets: dict[str, Shown] = {}
        self.access_points: dict[str, Shown] = {}
        self.network = Network(self)

    @property
    def _url_module(self) -> Any:
        from training_storage.emulator.services import s3_files_api

        return s3_files_api

    @staticmethod
    def get_cloudwatch_metrics(account_id: str, region: str) -> list[Any]:
        """Show how many files of each file system wait for export."""
        from moto.cloudwatch.models import MetricDatum

        return [
            MetricDatum(
                namespace="AWS/S3/Files",
                name="PendingExports",
                value=count,
                dimensions=[{"Name": "FileSystemId", "Value": file_system_id}],
                timestamp=utcnow(),
                unit="Count",
            )
            for file_system_id, count in s3_files_backends[account_id][region].pending_exports.items()
        ]

    # --- file systems

    def create_file_system(self, given: Shown) -> Shown:
        """Create a file system, and let its bucket send events."""
        same = [item for item in self.file_systems.values() if item["clientToken"] == given["clientToken"]]
        if same:
            names = ("bucket", "prefix", "roleArn", "kmsKeyId")
            if all((same[0].get(name) or "") == (given.get(name) or "") for name in names):
                return same[0]
            raise conflict("FileSystemAlreadyExists", f"{same[0]['fileSystemId']} was created with this client token")
        prefix = given.get("prefix") or ""
        if prefix and not prefix.endswith("/"):
            raise invalid(f"prefix '{prefix}' must end with a slash")
        bucket = find_bucket(self.account_id, self.region_name, given["bucket"])
        file_system_id = f"fs-0{uuid.uuid4().hex[:16]}"
        made = {
            "bucket": given["bucket"],
            "clientToken": given["clientToken"],
            "creationTime": utcnow(),
            "fileSystemArn": self._arn(f"file-system/{file_system_id}"),
            "fileSystemId": file_system_id,
            "ownerId": self.account_id,
            "prefix": prefix,
            "roleArn": given["roleArn"],
            "status": "creating",
            "tags": given.get("tags") or [],
        }
        if given.get("kmsKeyId"):
            made["kmsKeyId"] = given["kmsKeyId"]
        problem = role_problem(made, bucket, self.region_name)
        if problem:
            made["statusMessage"] = problem
        self.file_systems[file_system_id] = made
        self.pending_exports[file_system_id] = 0
        self.synchronization[file_system_id] = {
            "latestVersionNumber": 1,
            "importDataRules": [
                {"prefix": "", "trigger": "ON_DIRECTORY_FIRST_ACCESS", "sizeLessThan": _DEFAULT_IMPORT_BYTES}
            ],
            "expirationDataRules": [{"daysAfterLastAccess": _DEFAULT_EXPIRATION_DAYS}],
        }
        self._listen(made, bucket)
        return made

    def _arn(self, resource: str) -> str:
        return f"arn:{self.partition}:s3files:{self.region_name}:{self.account_id}:{resource}"

    def _events(self) -> Any:
        from moto.events.models import events_backends

        return events_backends[self.account_id][self.region_name]

    def _listen(self, file_system: Shown, bucket: Any) -> None:
        """Turn events of the bucket on, beside what it notifies already, and make the rule that takes them."""
        from moto.s3.models import NotificationConfiguration

        if bucket.notification_configuration is None:
            bucket.notification_configuration = NotificationConfiguration(event_bridge={})
        elif bucket.notification_configuration.event_bridge is None:
            bucket.notification_configuration.event_bridge = {}
        name = rule_name(file_system)
        pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [bucket.name]}}}
        self._events().put_rule(name, event_pattern=json.dumps(pattern), state="ENABLED", managed_by=SERVICE)
        # no target: nothing here would take the events, and moto fails on targets that it cannot deliver to

    def find(self, identifier: str) -> Shown:
        """Return a file system by id or ARN."""
        found = self.file_systems.get(identifier.rsplit("/", 1)[-1])
        if found is None:
            raise not_found("FileSystemNotFound", f"File system '{identifier}' does not exist.")
        return found

    def get_file_system(self, identifier: str) -> Shown:
        """Return a file system in its present state."""
        found = self.find(identifier)
        if "statusMessage" in found:
            return found  # what it was created with cannot be mended: only another file system helps
        deaf = self._deaf(found)
        return {**found, "status": "misconfigured", "statusMessage": deaf} if deaf else {**found, "status": "available"}

    def _deaf(self, file_system: Shown) -> str | None:
        """Say why a file system no longer hears of changes in its bucket."""
        from moto.s3.models import s3_backends

        name = bucket_name(file_system["bucket"])
        bucket = s3_backends[self.account_id][self.partition].buckets.get(name)
        if bucket is None:
            return f"Bucket {name} does not exist"
        notifications = bucket.notification_configuration
        if notifications is None or notifications.event_bridge is None:
            return f"Bucket {name} does not send events to Amazon EventBridge"
        rules = self._events().event_buses["default"].rules
        return None if rule_name(file_system) in rules else f"The rule {rule_name(file_system)} does not exist"

    def delete_file_system(self, identifier: str, *, force: bool) -> None:
        """Delete a file system, unless it is in use or has changes that its bucket does not have yet."""
        found = self.find(identifier)
        key = found["fileSystemId"]
        targets = [name for name, item in self.mount_targets.items() if item["fileSystemId"] == key]
        if targets:
            raise conflict("FileSystemInUse", f"File system {key} has mount targets: {', '.join(targets)}")
        waiting = self.pending_exports[key]
        if waiting and not force:
            raise conflict(
                "PendingExports", f"File system {key} has {waiting} files that are not exported to its bucket yet"
            )
        for name in [name for name, item in self.access_points.items() if item["fileSystemId"] == key]:
            del self.access_points[name]
        for held in (self.file_systems, self.synchronization, self.policies, self.pending_exports):
            held.pop(key, None)
        rules = self._events().event_buses["default"].rules
        rules.pop(rule_name(found), None)

    def put_synchronization(self, identifier: str, given: Shown) -> None:
        """Replace the rules of synchronization, if they are still those that the caller has seen."""
        key = self.find(identifier)["fileSystemId"]
        check_synchronization(given)
        version = self.synchronization[key]["latestVersionNumber"]
        seen = given.get("latestVersionNumber")
        if seen is not None and int(seen) != version:
            raise conflict("VersionMismatch", f"The synchronization configuration has version {version}, not {seen}")
        self.synchronization[key] = {
            "latestVersionNumber": version + 1,
            "importDataRules": given["importDataRules"],
            "expirationDataRules": given["expirationDataRules"],
        }

    def put_policy(self, identifier: str, policy: str) -> None:
        """Set the policy of a file system."""
        key = self.find(identifier)["fileSystemId"]
        if len(policy) > _LONGEST_POLICY:
            raise invalid(f"A file system policy has at most {_LONGEST_POLICY} characters", "PolicyTooLong")
        try:
            json.loads(policy)["Statement"]
        except (ValueError, KeyError, TypeError):
            raise invalid("The policy is not valid JSON with a Statement", "InvalidPolicy") from None
        self.policies[key] = policy

    def get_policy(self, identifier: str) -> Shown:
        """Return the policy of a file system."""
        key = self.find(identifier)["fileSystemId"]
        if key not in self.policies:
            raise not_found("PolicyNotFound", f"File system {key} has no policy")
        return {"fileSystemId": key, "policy": self.policies[key]}

    # --- access points

    def create_access_point(self, given: Shown) -> Shown:
        """Create an access point."""
        file_system = self.find(given["fileSystemId"])
        key = f"fsap-0{uuid.uuid4().hex[:16]}"
        made = {
            "accessPointArn": f"{file_system['fileSystemArn']}/access-point/{key}",
            "accessPointId": key,
            "clientToken": given["clientToken"],
            "fileSystemId": file_system["fileSystemId"],
            "ownerId": self.account_id,
            "rootDirectory": given.get("rootDirectory") or {"path": "/"},
            "status": "available",
            "tags": given.get("tags") or [],
        }
        if given.get("posixUser"):
            made["posixUser"] = given["posixUser"]
        self.access_points[key] = made
        return made

    def access_point(self, identifier: str) -> Shown:
        """Return an access point by id or ARN."""
        found = self.access_points.get(identifier.rsplit("/", 1)[-1])
        if found is None:
            raise not_found("AccessPointNotFound", f"Access point '{identifier}' does not exist.")
        return found

    def tagged(self, identifier: str) -> Shown:
        """Return the file system or access point that tags are on."""
        return self.access_point(identifier) if "fsap-" in identifier else self.find(identifier)


# The regions are those of EC2: the SDK's list of endpoints has none for S3 Files
s3_files_backends: BackendDict[S3FilesBackend] = BackendDict(S3FilesBackend, "ec2")
