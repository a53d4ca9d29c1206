"""Small corrections of moto that belong to no service of their own."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote, urlparse

from training_storage.emulator import clients
from training_storage.emulator._moto import Patches

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def template_location(url: str) -> tuple[str, str]:
    """Return bucket and key of a template URL, in path style or virtual-host style."""
    parts = urlparse(url)
    host, path = parts.hostname or "", unquote(parts.path.lstrip("/"))
    if host in _LOOPBACK or host.startswith(("s3.", "s3-")):
        bucket, _, key = path.partition("/")
        return bucket, key
    return host.split(".s3", 1)[0], path


def install(patches: Patches) -> None:
    """Correct template URLs and the JSON of dates; answer what the command line asks on the side."""
    from moto.cloudformation import responses, utils
    from moto.cloudtrail.responses import CloudTrailResponse
    from moto.core import utils as core
    from moto.core.responses import BaseResponse
    from moto.s3.models import s3_backends

    patches.set(core, "create_loader", clients.loader)

    region_of = BaseResponse.get_region_from_url

    def get_region_from_url(self: Any, request: Any, full_url: str) -> str:
        # IAM has one endpoint for AWS GovCloud, iam.us-gov.amazonaws.com; what moto reads there is no region
        region = region_of(self, request, full_url)
        return "us-gov-west-1" if region == "us-gov" else region

    patches.set(BaseResponse, "get_region_from_url", get_region_from_url)

    def get_stack_from_s3_url(template_url: str, account_id: str, partition: str) -> str:
        bucket, key = template_location(template_url)
        found = s3_backends[account_id][partition].get_object(bucket, key)
        if found is None:
            from moto.cloudformation.exceptions import ValidationError

            raise ValidationError(message=f"S3 error: the template {template_url} does not exist")
        return bytes(found.value).decode("utf-8")

    patches.set(responses, "get_stack_from_s3_url", get_stack_from_s3_url)
    patches.set(utils, "get_stack_from_s3_url", get_stack_from_s3_url)

    # The CDK command line looks for the API call behind a failed deployment; here nobody keeps such a trail.
    patches.set(CloudTrailResponse, "lookup_events", lambda _self: json.dumps({"Events": []}))

    default = json.JSONEncoder.default

    def with_dates(self: json.JSONEncoder, value: Any) -> Any:
        # moto writes the answers of AWS SDK tasks into a state machine's history with plain json
        return value.isoformat() if isinstance(value, date | datetime) else default(self, value)

    patches.set(json.JSONEncoder, "default", with_dates)
