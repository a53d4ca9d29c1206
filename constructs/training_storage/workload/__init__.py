"""What the user declares: the model, and reading it with line numbers and all errors at once."""

from __future__ import annotations

from training_storage.workload.changing import change_workload
from training_storage.workload.loading import (
    load_workload,
    load_workload_with_lines,
    parse_workload,
    workload_from_dict,
)
from training_storage.workload.model import Workload
from training_storage.workload.source import LineMap

__all__ = [
    "LineMap",
    "Workload",
    "change_workload",
    "load_workload",
    "load_workload_with_lines",
    "parse_workload",
    "workload_from_dict",
]
