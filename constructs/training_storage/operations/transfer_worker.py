"""A process that copies small objects: entries come as lines of JSON on its input, outcomes go as lines to its output.

boto3 keeps one processor busy with a few hundred objects a second, so a large transfer runs several of these.
"""

from __future__ import annotations

import json
import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any

from training_storage.operations.transfer_connection import AwsConnection
from training_storage.operations.transfer_copy import CancelledError, ObjectCopier, StopError
from training_storage.operations.transfer_model import Entry, Location, Outcome, Route


def main() -> None:
    """Work until the input ends."""
    order = json.loads(sys.stdin.readline())
    connection = AwsConnection(order["region"], order["profile"])
    route = Route(*(tuple(Location(**place) for place in order[end]) for end in ("sources", "destinations")))
    threads = order["threads"]
    client, quick = connection.quick(threads)
    copier = ObjectCopier(client, route, verify=order["verify"], remove=order["remove"], quick=quick)
    entries: SimpleQueue[Entry | None] = SimpleQueue()
    outcomes: SimpleQueue[list[Any] | None] = SimpleQueue()
    workers = [Thread(target=_work, args=(copier, entries, outcomes), daemon=True) for _ in range(threads)]
    writer = Thread(target=_write, args=(outcomes,), daemon=True)
    for thread in (*workers, writer):
        thread.start()
    finished = False
    for line in sys.stdin:
        said = json.loads(line)
        if not said:
            finished = True
            break
        for entry in said:
            entries.put(Entry(*entry))
    if not finished:
        # The input ended without a word: whoever wanted this is dead, and another run may have begun.
        os._exit(1)
    for _ in workers:
        entries.put(None)
    for thread in workers:
        thread.join()
    outcomes.put(None)
    writer.join()


def _work(copier: ObjectCopier, entries: SimpleQueue[Entry | None], outcomes: SimpleQueue[list[Any] | None]) -> None:
    while (entry := entries.get()) is not None:
        outcomes.put(answer(copier, entry))


def answer(copier: ObjectCopier, entry: Entry) -> list[Any]:
    """Return the outcome of an entry, or what stops everything, as plain data."""
    try:
        return ["outcome", *copier.handle(entry)]
    except StopError as error:
        return ["stop", error.code, error.reason]
    except CancelledError:
        return ["cancelled", entry.source, entry.relative]
    except Exception as error:  # one object must not end the others
        reason = f"unexpected {type(error).__name__}: {error}"
        return ["outcome", *Outcome(entry.source, entry.relative, entry.size, entry.etag, "failed", reason=reason)]


def _write(outcomes: SimpleQueue[list[Any] | None]) -> None:
    ended = False
    while not ended:
        some = [outcomes.get()]
        while not outcomes.empty():
            some.append(outcomes.get())
        ended = None in some
        lines = [each for each in some if each is not None]
        sys.stdout.write(json.dumps(lines) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
