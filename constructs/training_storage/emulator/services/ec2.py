"""EC2: placement groups, which moto lacks; launch templates and machine images, which it handles otherwise than EC2."""

from __future__ import annotations

import uuid
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.ec2.responses import EC2Response
from moto.ec2.utils import parse_user_data

from training_storage.emulator._moto import Patches

_STRATEGIES = {"cluster", "spread", "partition"}

# Kept by backend: a new emulator has new backends
_loaded: WeakSet[EC2Backend] = WeakSet()
_groups: WeakKeyDictionary[EC2Backend, dict[str, dict[str, Any]]] = WeakKeyDictionary()


def placement_groups(backend: EC2Backend) -> dict[str, dict[str, Any]]:
    """Return the placement groups of a backend by name, as the API shows them."""
    return _groups.setdefault(backend, {})


class _Operations:
    """Operations of the EC2 API, as methods of moto's response class."""

    def create_placement_group(self: Any) -> ActionResult:
        backend = self.ec2_backend
        group_id = f"pg-0{uuid.uuid4().hex[:16]}"
        name = self._get_param("GroupName") or group_id
        strategy = self._get_param("Strategy") or "cluster"
        if strategy not in _STRATEGIES:
            raise EC2ClientError("InvalidParameterValue", f"Value ({strategy}) for parameter Strategy is invalid.")
        if name in placement_groups(backend):
            raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        tags = self._parse_tag_specification("placement-group")
        place = f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}"
        group = {
            "GroupId": group_id,
            "GroupName": name,
            "Strategy": strategy,
            "State": "available",
            "GroupArn": f"{place}:placement-group/{name}",
            "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        }
        for option in ("PartitionCount", "SpreadLevel"):
            if self._get_param(option):
                group[option] = self._get_param(option)
        placement_groups(backend)[name] = group
        return ActionResult({"PlacementGroup": group})

    def describe_placement_groups(self: Any) -> ActionResult:
        groups = placement_groups(self.ec2_backend)
        names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
        for name in names:
            if name not in groups:
                raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown.")
        found = [group for group in groups.values() if not names or group["GroupName"] in names]
        found = [group for group in found if not ids or group["GroupId"] in ids]
        keys = {"group-name": "GroupName", "strategy": "Strategy", "state": "State", "group-arn": "GroupArn"}
        for name, values in self._filters_from_querystring().items():
            if name.startswith("tag:"):
                found = [one for one in found if any(_tag(one, name[4:]) == value for value in values)]
            elif name in keys:
                found = [group for group in found if group[keys[name]] in values]
            else:
                raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        return ActionResult({"PlacementGroups": found})

    def delete_placement_group(self: Any) -> ActionResult:
        name = self._get_param("GroupName")
        if placement_groups(self.ec2_backend).pop(name, None) is None:
            raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown.")
        return ActionResult({})


def _tag(group: dict[str, Any], key: str) -> str | None:
    return next((tag["Value"] for tag in group["Tags"] if tag["Key"] == key), None)


def install(patches: Patches) -> None:
    """Add the operations, correct launch templates, and put off the loading of machine images."""
    for name, function in vars(_Operations).items():
        if not name.startswith("_"):
            patches.set(EC2Response, name, function)

    # moto fills every EC2 backend with a thousand images, each with its volume and snapshot, whenever it is reset
    load = AmiBackend._load_amis
    describe = EC2Response.describe_images

    def describe_images(self: Any) -> Any:
        if self.ec2_backend not in _loaded:
            _loaded.add(self.ec2_backend)
            load(self.ec2_backend)
        return describe(self)

    patches.set(AmiBackend, "_load_amis", lambda _self: None)
    patches.set(EC2Response, "describe_images", describe_images)

    # moto reads user data when a launch template is made, and forgets to when it gets another version
    create_version = LaunchTemplate.create_version

    def with_user_data(self: Any, data: dict[str, Any], description: str) -> Any:
        if isinstance(data.get("UserData"), str):
            data = {**data, "UserData": parse_user_data(data["UserData"])}
        return create_version(self, data, description)

    patches.set(LaunchTemplate, "create_version", with_user_data)
