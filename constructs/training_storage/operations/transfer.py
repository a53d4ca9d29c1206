"""Copy a prefix of S3 to another place: by the servers alone, verified, and resumable.

``transfer`` lists the source, leaves out what its journal knows to be verified on both sides, copies the rest with
CopyObject or in parts, proves every copy, and writes down what is proved. Killed at any moment and called again it goes
on: nothing is missing at the end, and nothing that was verified is copied a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from training_storage.operations.transfer_connection import Connection
from training_storage.operations.transfer_model import Options, Report, Route
from training_storage.operations.transfer_run import Run


def transfer(
    connection: Connection,
    route: Route,
    options: Options | None = None,
    *,
    on_progress: Callable[[Report], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Copy every object of a place to another.

    Args:
        connection: How to reach S3, in the region of the destination.
        route: From where to where.
        options: How; the defaults when left out.
        on_progress: Called with the counts several times a second, and at the end.
        on_note: Called with what the user should know at once: another run, a bucket that is waking up.
        sleep: Replaced in tests.

    Returns:
        The counts and what failed. An object that fails does not end the run.

    Raises:
        RefusedError: A bucket does not exist.
        AwsError: AWS refused or failed for the whole of it; what was verified is written down.
        KeyboardInterrupt: The user stopped it; what was verified is written down.
    """
    return Run(connection, route, options or Options(), on_progress, on_note, sleep).go()
