"""What an emulator does to the process it runs in, and takes back when it ends."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from training_storage.emulator import _moto

DEFAULT_ACCOUNT = "123456789012"
"""moto's own default account."""


@contextmanager
def own_settings(region: str) -> Iterator[None]:
    """Hide the caller's AWS settings: profiles, endpoints and certificates that people and CI systems set for AWS.

    A region that is set stays; code under test may rely on it.
    """
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith("AWS_")}
    for name in kept:
        del os.environ[name]
    # No files either: an endpoint, a proxy or a certificate in the caller's ~/.aws/config would lead past the emulator.
    ours = {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    os.environ.update(ours)
    os.environ.update({name: kept[name] for name in ("AWS_REGION", "AWS_DEFAULT_REGION") if name in kept})
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        os.environ.update(kept)


@contextmanager
def corrected_moto(account: str) -> Iterator[None]:
    """Run moto, empty and corrected, with callers that belong to an account.

    What moto held before, for an emulator around this one or for a test's own ``mock_aws``, is out of sight until the
    end and is then as it was.
    """
    # imported here, with the caller's settings out of sight: moto makes boto3 sessions while it is imported
    from moto import mock_aws
    from moto.core.config import default_user_config

    from training_storage.emulator import server
    from training_storage.emulator.services import accounts

    moto = mock_aws(config={"stepfunctions": {"execute_state_machine": True}})
    settings = cast("dict[str, Any]", default_user_config)
    configured = copy.deepcopy(settings)
    _moto.acquire()
    try:
        moto.start()
        outer_account, outer_server = accounts.current(), server.running()
        try:
            with _set_aside():
                accounts.use(account)
                try:
                    yield
                finally:
                    accounts.use(outer_account)
                    if not outer_server:
                        server.stop_shared()
        finally:
            moto.stop()
            # inside another mock, moto leaves the inner one's settings standing
            settings.clear()
            settings.update(configured)
    finally:
        _moto.release()


@contextmanager
def _set_aside() -> Iterator[None]:
    """Hide everything that moto holds for somebody else, and bring it back at the end."""
    from moto.core.base_backend import BackendDict, backend_lock
    from moto.s3.models import FakeKey, FakeMultipart, s3_backends

    in_use: list[Any] = vars(BackendDict)["_instances"]
    # S3 knows beside its backends whose each bucket is, and closes the files of all objects ever made when it is reset
    # moto's metaclass sets these; its types do not say so.
    tracked: list[Any] = [FakeKey.instances_tracked, FakeMultipart.instances_tracked]  # type: ignore[attr-defined]
    with backend_lock:
        kept = [(backends, dict(backends)) for backends in in_use]
        owners, objects = dict(s3_backends.bucket_accounts), [list(items) for items in tracked]
        for held in [*(backends for backends, _ in kept), in_use, s3_backends.bucket_accounts, *tracked]:
            held.clear()
    try:
        yield
    finally:
        with backend_lock:
            BackendDict.reset()
            for backends, content in kept:
                backends.update(content)
                in_use.append(backends)
            s3_backends.bucket_accounts.clear()
            s3_backends.bucket_accounts.update(owners)
            for items, before in zip(tracked, objects, strict=True):
                items[:] = before
