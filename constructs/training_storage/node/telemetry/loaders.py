"""How many batches lie ready in a loader, where it tells."""

from __future__ import annotations

from typing import Any, Callable


def depth_of(iterator: Any) -> Callable[[], int] | None:
    """Return a function that counts the batches that are ready; None where the loader does not tell.

    PyTorch's loader with workers (``_MultiProcessingDataLoaderIter``) has them in two places: in the queue that its
    ``next()`` reads, ``_data_queue`` (the workers' own, or that of the thread that pins memory), and among the tasks in
    ``_task_info``, where batches wait that came out of their turn: those tasks that are not outstanding any more.

    Args:
        iterator: What batches are taken from.
    """
    queue = getattr(iterator, "_data_queue", None)
    size = getattr(queue, "qsize", None)
    tasks = getattr(iterator, "_task_info", None)
    outstanding = getattr(iterator, "_tasks_outstanding", None)
    if not callable(size) or not isinstance(tasks, dict) or not isinstance(outstanding, int):
        return None

    def ready() -> int:
        # _reset makes a new dictionary where workers are kept for the next epoch.
        return max(int(size()), 0) + max(len(iterator._task_info) - int(iterator._tasks_outstanding), 0)

    try:
        ready()
    except Exception:
        # Queues of macOS do not know their size.
        return None
    return ready


def nbytes(batch: Any) -> int:
    """Return the bytes of what a batch holds: tensors, arrays and bytes, in lists, tuples and dictionaries.

    For ``watch(loader, batch_bytes=nbytes)``. It counts what is in memory, which is what was read where samples are
    stored as they are, and more where they are unpacked.

    Args:
        batch: The batch; what it holds besides counts nothing.
    """
    if isinstance(batch, (bytes, bytearray, memoryview)):
        return memoryview(batch).nbytes
    if isinstance(batch, str):
        return len(batch.encode())
    if isinstance(batch, dict):
        return sum(nbytes(each) for each in batch.values())
    if isinstance(batch, (list, tuple, set, frozenset)):
        return sum(nbytes(each) for each in batch)
    size = getattr(batch, "nbytes", None)
    return size if isinstance(size, int) else 0
