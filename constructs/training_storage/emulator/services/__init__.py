"""What is added to moto, or corrected in it, while an emulator runs."""

from __future__ import annotations

from training_storage.emulator._moto import Patches


def install(patches: Patches) -> None:
    """Make all additions and corrections; ``patches`` remembers how to take them back."""
    from training_storage.emulator.services import (
        accounts,
        cloudformation,
        directory_buckets,
        ec2,
        events,
        fsx,
        functions,
        general,
        instances,
        managed_policies,
        object_conditions,
        parameters,
        run_command,
        s3,
        s3_files_api,
        state_machines,
    )

    for module in (
        accounts,
        general,
        managed_policies,
        cloudformation,
        ec2,
        events,
        fsx,
        functions,
        instances,
        run_command,
        parameters,
        s3,
        object_conditions,
        directory_buckets,
        s3_files_api,
        state_machines,
    ):
        module.install(patches)
