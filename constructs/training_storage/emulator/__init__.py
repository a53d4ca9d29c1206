"""An AWS emulator: deploys templates, cloud assemblies and whole CDK apps without an account and without a network.

It is moto, extended and corrected (the ``emulator`` extra), with a CloudFormation engine of its own.

In a test, in this process::

    from training_storage.emulator import emulator

    with emulator() as aws:
        stack = aws.deploy(template, "hot")
        assert aws.client("fsx").describe_file_systems()["FileSystems"][0]["StorageCapacity"] == 4800
        aws.destroy("hot")

Around the CDK command line: ``training-storage emulate -- cdk deploy --all``; in pytest: the fixture ``aws_emulator``.

What it shows:

- The template resolves: every ``Ref``, ``Fn::GetAtt``, import, parameter and condition has a value of the right shape.
- Values reach the right place: the emulated services are asked with boto3 and show what was created.
- Order is sane: a resource that needs another finds it; deletes run the other way round; a failing resource rolls the
  stack back with its reason; an update touches what changed and nothing else; what is retained is still there.
- Code runs: Python Lambda handlers (as processes), custom resources, state machines.
- Files of Lustre file systems are real files in a directory (``aws.file_system(id).path``): data repository tasks,
  links and ``lfs`` on nodes move them to the emulated S3 and back, and write the reports of what failed.
- Instances are nodes (``aws.node(id)``): a root folder, the mount, and Run Command that really runs commands there.
- Storage behaves: directory buckets open sessions, refuse what S3 refuses for them and are deleted only when they are
  empty; S3 Files looks at its bucket and its role and waits for exports; FSx refuses links and deletes as it does.

Nothing is skipped in silence: a type without a model and without a registry schema, a reference to nothing (also in a
branch that is not taken), a property that the registry does not know or that only the service writes, a name that is
taken, an update that has no implementation: each fails the deploy. So does what is not built here: transforms other
than the language extensions, snapshots as a deletion policy, imports into a stack, stack sets.

What it cannot show:

- That AWS accepts the values. Registry schemas check names, kinds and patterns; service rules are checked only where
  they depend on order or references. A size, a tier or a limit that is wrong for the service deploys here.
- That IAM permits. No policy is enforced, for callers, roles and handlers alike. Two services look at policies as they
  do on AWS, because nothing works without: S3 Files at its role, the lifecycle of a directory bucket at the bucket's.
- That anything is fast, has capacity, boots, or mounts: EFA, Lustre, Mountpoint and machine images do not exist here.
  An instance runs no user data and is not isolated: its root is a folder, and ``aws.on_instance`` installs what user
  data would have. No creation signal is waited for.
- That types which only their registry schema describes exist in their service: they live in their stack and no describe
  call shows them.
- That schedules, event rules and alarms fire by themselves: ``fire_schedule`` and ``set_alarm_state`` do it. An event
  starts state machines and functions only.
- That time passes: ``advance`` lets it, and a wait in a state machine does so instead of waiting. What FSx does by
  itself happens when a test says ``settle``; what is to fail, ``fail_files``, ``fail_task`` and ``hold_tasks``; what
  clients read and wrote, ``record_io``; see docs/emulator.md. Others are ``expire_objects`` and
  ``set_pending_exports``; ``task_files`` lets tasks report counts without touching files.
- In which order a directory bucket lists its objects: here it is always the same, there it is none.

Names are loaded when they are used: importing this package loads neither moto nor boto3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from training_storage.emulator.errors import EmulatorError, EmulatorUnavailableError, StackEvent, StackFailedError

if TYPE_CHECKING:
    from training_storage.emulator.command import run_command
    from training_storage.emulator.session import Emulator, Stack, emulator

__all__ = [
    "Emulator",
    "EmulatorError",
    "EmulatorUnavailableError",
    "Stack",
    "StackEvent",
    "StackFailedError",
    "emulator",
    "run_command",
]

_LAZY = {
    "Emulator": "training_storage.emulator.session",
    "Stack": "training_storage.emulator.session",
    "emulator": "training_storage.emulator.session",
    "run_command": "training_storage.emulator.command",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
