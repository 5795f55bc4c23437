"""Operator state that a user's function keeps itself: CheckpointedFunction and ListCheckpointed."""

from __future__ import annotations

from typing import Any

from millrace.state.descriptors import ListStateDescriptor

# ListCheckpointed gives its list back in one piece; it is stored under this name.
LIST_CHECKPOINTED = "@list-checkpointed"


class FunctionInitializationContext:
    """Given to `initialize_state`."""

    def __init__(self, store: Any, restored: bool) -> None:
        self._store = store
        self._restored = restored

    def is_restored(self) -> bool:
        """Whether there is state from before."""
        return self._restored

    def get_operator_state_store(self) -> Any:
        """Where to get list, union list and broadcast state."""
        return self._store


class FunctionSnapshotContext:
    """Given to `snapshot_state`. Every epoch is a consistent cut, and so a checkpoint."""

    def __init__(self, epoch: int, processing_time: int) -> None:
        self._epoch = epoch
        self._processing_time = processing_time

    def get_checkpoint_id(self) -> int:
        """Number of the epoch."""
        return self._epoch

    def get_checkpoint_timestamp(self) -> int:
        """The epoch's processing time."""
        return self._processing_time


def has_own_state(function: Any) -> bool:
    """Whether a function takes part in checkpoints."""
    return callable(getattr(function, "snapshot_state", None))


def restore_function(function: Any, store: Any, restored: bool) -> None:
    """Give a function its operator state, before it is opened."""
    if callable(getattr(function, "initialize_state", None)):
        function.initialize_state(FunctionInitializationContext(store, restored))
    elif callable(getattr(function, "restore_state", None)):
        saved = store.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED)).get()
        if saved:
            function.restore_state(saved)


def snapshot_function(function: Any, store: Any, epoch: int, processing_time: int) -> None:
    """Have a function put its state into the store."""
    if not has_own_state(function):
        return
    if callable(getattr(function, "initialize_state", None)):
        function.snapshot_state(FunctionSnapshotContext(epoch, processing_time))
    else:
        saved = function.snapshot_state(epoch, processing_time)
        store.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED)).update(list(saved or ()))


def is_listener(function: Any) -> bool:
    """Whether a function wants to hear of checkpoints."""
    return callable(getattr(function, "notify_checkpoint_complete", None))


def notify_function(function: Any, completed: int, aborted: int) -> None:
    """Tell a function which checkpoint is complete and which was given up (0 for none)."""
    if not is_listener(function):
        return
    if aborted and callable(getattr(function, "notify_checkpoint_aborted", None)):
        function.notify_checkpoint_aborted(aborted)
    if completed:
        function.notify_checkpoint_complete(completed)
