"""Step Functions: state machines really run, also those that CloudFormation made."""

from __future__ import annotations

from training_storage.emulator._moto import Patches


def install(patches: Patches) -> None:
    """Let moto's interpreter hold every state machine; which backend answers is set where the emulator starts moto."""
    from moto.stepfunctions import models
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    patches.set(models, "stepfunctions_backends", stepfunctions_parser_backends)
