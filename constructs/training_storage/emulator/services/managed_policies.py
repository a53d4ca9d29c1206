"""AWS managed policies exist on AWS without anybody making them; moto loads all or none."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from training_storage.emulator._moto import Patches


@lru_cache
def _known() -> dict[str, Any]:
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    return dict(json.loads(aws_managed_policies_data))


def install(patches: Patches) -> None:
    """Load a managed policy when it is first attached; a misspelt one stays unknown."""
    from moto.iam.models import AWSManagedPolicy, IAMBackend

    original = IAMBackend.attach_role_policy

    def attach_role_policy(self: Any, policy_arn: str, role_name: str) -> None:
        name = policy_arn.rsplit("/", 1)[-1]
        if ":iam::aws:policy/" in policy_arn and policy_arn not in self.managed_policies and name in _known():
            policy = AWSManagedPolicy.from_data(name, self.account_id, self.region_name, _known()[name])
            self.managed_policies[policy.arn] = policy
        original(self, policy_arn, role_name)

    patches.set(IAMBackend, "attach_role_policy", attach_role_policy)
