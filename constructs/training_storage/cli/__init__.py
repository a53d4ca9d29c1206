"""The command line: one module a command.

Exit codes: 0 done; 1 done, and the answer is no; 2 bad usage or bad input; 3 AWS refused or failed; 70 a mistake of
this program; 74 the output cannot be written; 130 interrupted; 141 whoever read the output went away.
"""

from __future__ import annotations

from training_storage.cli.app import main

__all__ = ["main"]
