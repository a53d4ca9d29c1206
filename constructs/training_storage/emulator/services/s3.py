"""Amazon S3: no bucket policy is enforced, EventBridge delivery shows, and objects know the emulator's time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

from training_storage.emulator import world
from training_storage.emulator._moto import Patches


def _with_event_bridge(body: str) -> str:
    """Add the element that moto keeps but does not show."""
    root = ElementTree.fromstring(body)  # noqa: S314 - moto's own answer
    namespace = root.tag[: root.tag.index("}") + 1] if root.tag.startswith("{") else ""
    ElementTree.SubElement(root, f"{namespace}EventBridgeConfiguration")
    return ElementTree.tostring(root, encoding="unicode")


def install(patches: Patches) -> None:
    """Correct moto's reading of bucket policies and its answer about notifications."""
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket, FakeKey
    from moto.s3.responses import S3Response

    # moto reads bucket policies without their conditions, so that "deny without TLS" denies everything. It enforces no
    # other policy; half a check would only hide what the emulator does not show.
    patches.set(FakeBucket, "get_permission", lambda _bucket, _action, _resource: PermissionResult.NEUTRAL)

    original = S3Response.get_bucket_notification

    def get_bucket_notification(self: Any) -> Any:
        answer = original(self)
        found = self.backend.get_bucket_notification_configuration(self.bucket_name)
        if found is None or found.event_bridge is None:
            return answer
        status, headers, body = answer
        text = body.decode() if isinstance(body, bytes) else str(body)
        return status, headers, _with_event_bridge(text)

    patches.set(S3Response, "get_bucket_notification", get_bucket_notification)

    make = FakeKey.__init__

    def with_clock(self: Any, *given: Any, **more: Any) -> None:
        make(self, *given, **more)
        if world.running():
            self.last_modified += timedelta(seconds=world.current().ahead)

    patches.set(FakeKey, "__init__", with_clock)
