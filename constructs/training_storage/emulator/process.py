"""What an emulator does to the process it runs in, and takes back when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
    os.environ.update({"AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true"})
    os.environ.update({name: kept[name] for name in ("AWS_REGION", "AWS_DEFAULT_REGION") if name in kept})
    try:
        yield
    finally:
        for name in ("AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED"):
            os.environ.pop(name, None)
        os.environ.update(kept)


@contextmanager
def corrected_moto(account: str) -> Iterator[None]:
    """Run moto, empty and corrected, with callers that belong to an account."""
    # imported here, with the caller's settings out of sight: moto makes boto3 sessions while it is imported
    from moto import mock_aws

    from training_storage.emulator import server
    from training_storage.emulator.services import accounts, ec2, fsx_repository

    moto = mock_aws(config={"stepfunctions": {"execute_state_machine": True}})
    _moto.acquire()
    try:
        moto.start()
        try:
            accounts.use(account)
            ec2.forget()
            fsx_repository.forget()
            yield
        finally:
            server.stop_shared()
            moto.stop()
            accounts.use(DEFAULT_ACCOUNT)
    finally:
        _moto.release()
