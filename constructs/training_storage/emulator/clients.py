"""boto3 clients that reach the emulated services inside this process.

They outlive an emulator: making one costs more than a small deploy, and what they talk to is looked up at each call.
"""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.loaders import Loader
from botocore.loaders import create_loader as make_loader
from botocore.session import Session

_CREDENTIALS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "aws_session_token": "testing"}
# No retries: an error of the emulator must surface at once, not after back-off.
_CONFIG = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})

_lock = threading.RLock()
_clients: dict[tuple[str, str, str], Any] = {}
_session: boto3.session.Session | None = None
_loader: Loader | None = None


def loader() -> Loader:
    """Return the one loader of service models: EC2's alone takes a good part of a second to read."""
    global _loader
    with _lock:
        if _loader is None:
            _loader = make_loader()
        return _loader


def client(service: str, account: str, region: str) -> Any:
    """Return the client of a service in an account and region; the same one every time."""
    global _session
    with _lock:
        key = (service, account, region)
        if key not in _clients:
            if _session is None:
                inner = Session()
                inner.register_component("data_loader", loader())
                _session = boto3.session.Session(region_name=region, botocore_session=inner, **_CREDENTIALS)
            # The stubs know names of services as literals only.
            made = _session.client(service, region_name=region, config=_CONFIG)  # type: ignore[call-overload]  # as above

            def name_account(params: dict[str, Any], **_: Any) -> None:
                params["headers"]["x-moto-account-id"] = account

            made.meta.events.register("before-call", name_account)
            _clients[key] = made
        return _clients[key]
