"""Step Functions: state machines really run, also those that CloudFormation made."""

from __future__ import annotations

import re
import sys
from typing import Any

from training_storage.emulator._moto import Patches

# A path that can only ever mean one value: names and literal indices, no wildcard, slice, filter or descent.
_DEFINITE = re.compile(r"\$(?:\.[\w-]+|\['[^']*'\]|\[\d+\])*")


def install(patches: Patches) -> None:
    """Let moto's interpreter hold every state machine, and read ``$.list[0].name`` as one value.

    Which backend answers is set where the emulator starts moto.
    """
    from jsonpath_ng.ext.parser import parse
    from moto.stepfunctions import models
    from moto.stepfunctions.parser.asl.utils import json_path
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    patches.set(models, "stepfunctions_backends", stepfunctions_parser_backends)

    original = json_path.extract_json

    def extract_json(path: str, data: Any) -> Any:
        found = original(path, data)
        if not _DEFINITE.fullmatch(path):
            return found
        # moto wraps what stands behind an index into a list of one; AWS does so for indefinite paths only
        matches = parse(path).find(data)
        return matches[0].value if matches else found

    for module in list(sys.modules.values()):
        if getattr(module, "extract_json", None) is original:
            patches.set(module, "extract_json", extract_json)
