"""Public parameters of AWS Systems Manager that moto does not ship: GPU and Neuron machine images.

The image ids are made up, one for each name and region, always the same. Only names of the known shape resolve, so
that a misspelt one fails as it would on AWS.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from moto.core.utils import utcnow
from moto.ssm.models import Parameter, ParameterDict

from training_storage.emulator._moto import Patches

# https://docs.aws.amazon.com/dlami/latest/devguide/ and
# https://awsdocs-neuron.readthedocs-hosted.com/ (Neuron DLAMI, "SSM parameters")
_PUBLIC = (
    re.compile(r"/aws/service/deeplearning/ami/(x86_64|arm64)/[a-z0-9.-]+/latest/ami-id"),
    re.compile(r"/aws/service/neuron/dlami/[a-z0-9._-]+/[a-z0-9.-]+/latest/image_id"),
)


def public_image(name: str, region: str) -> str | None:
    """Return the image id under a public parameter name, or None when the name is of no known shape."""
    if not any(pattern.fullmatch(name) for pattern in _PUBLIC):
        return None
    return f"ami-{hashlib.sha256(f'{region}:{name}'.encode()).hexdigest()[:17]}"


def install(patches: Patches) -> None:
    """Let moto's store load these names when they are first asked for, as it does with its own."""
    original = ParameterDict._check_loading_status

    def check(self: Any, key: str) -> None:
        original(self, key)
        name = str(key or "")
        image = public_image(name, self.region_name)
        if image is not None and name not in self.keys():
            dict.__setitem__(
                self,
                name,
                [
                    Parameter(  # type: ignore[abstract]  # moto's own class is used so too
                        account_id=self.account_id,
                        name=name,
                        value=image,
                        parameter_type="String",
                        description=None,
                        allowed_pattern=None,
                        keyid=None,
                        last_modified_date=utcnow(),
                        version=1,
                        data_type="aws:ec2:image",
                    )
                ],
            )

    patches.set(ParameterDict, "_check_loading_status", check)
