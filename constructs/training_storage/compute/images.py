"""Which image a node boots, and what follows from it."""

from __future__ import annotations

from typing import Final

from training_storage._tokens import is_concrete
from training_storage.catalog import Catalog, default_catalog
from training_storage.catalog.model import InstanceType

ROOT_DEVICE_AMAZON_LINUX: Final = "/dev/xvda"
ROOT_DEVICE_UBUNTU: Final = "/dev/sda1"


def image_id(image: str, facts: InstanceType | None, catalog: Catalog | None = None) -> str:
    """Return what goes into ``ImageId``: an AMI id, or ``resolve:ssm:`` and a parameter that EC2 reads at each launch.

    Args:
        image: ``auto``, ``ami-...`` or ``ssm:/parameter/name``, or a token.
        facts: Row of the instance type; for ``auto`` its image family must be known.
        catalog: Where the parameters of public images stand. Left out: the facts of the package.
    """
    if not is_concrete(image):
        return image
    if image == "auto":
        parameter = (catalog or default_catalog()).image_parameter(facts) if facts is not None else None
        if parameter is None:
            raise AssertionError("the rules fleet.known-type and fleet.image let no such image through")
        return f"resolve:ssm:{parameter}"
    return f"resolve:{image}" if image.startswith("ssm:") else image


def default_root_device_name(image: str) -> str:
    """Return the name of the root device: that of Ubuntu where the image says so, else that of Amazon Linux."""
    return ROOT_DEVICE_UBUNTU if is_concrete(image) and "ubuntu" in image.lower() else ROOT_DEVICE_AMAZON_LINUX
