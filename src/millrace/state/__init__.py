"""State: what a program keeps between records, and how it survives.

Keyed state, operator state and timers of a subtask in memory; deltas, bases and manifests on disk.
"""

from millrace.state.api import (
    AggregatingState,
    AppendingState,
    BroadcastState,
    KeyedStateStore,
    ListState,
    MapState,
    MergingState,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    ReducingState,
    State,
    ValueState,
)
from millrace.state.backends import BackendSpec
from millrace.state.delta import Version
from millrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from millrace.state.errors import (
    StateCorruptedError,
    StateDescriptorError,
    StateEncodingError,
    StateError,
    StatePickleError,
    StateTypeError,
)
from millrace.state.files import JobFiles, open_files
from millrace.state.handles import FileHandle, StateHandles
from millrace.state.hashing import stable_hash
from millrace.state.heap import KeyedStateBackend
from millrace.state.key_groups import (
    KeyRouter,
    default_max_parallelism,
    key_group,
    key_group_range,
    subtask_of,
)
from millrace.state.manifest import (
    Manifest,
    OperatorMeta,
    StateMeta,
    garbage,
    latest_manifest,
    list_manifests,
    read_manifest,
    write_manifest,
)
from millrace.state.operator_state import OperatorStateBackend, redistribute_list, redistribute_union
from millrace.state.savepoint import Savepoint
from millrace.state.savepoint_views import KeyedStateView, OperatorStateView, TimersView
from millrace.state.subtask import OperatorBackends, SubtaskState
from millrace.state.tables import Clock, KeyContext
from millrace.state.timers import OperatorTimers, Timer, TimerTable
from millrace.state.ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BackendSpec",
    "BroadcastState",
    "Clock",
    "FileHandle",
    "JobFiles",
    "KeyContext",
    "KeyRouter",
    "KeyedStateBackend",
    "KeyedStateStore",
    "KeyedStateView",
    "ListState",
    "ListStateDescriptor",
    "Manifest",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorBackends",
    "OperatorMeta",
    "OperatorStateBackend",
    "OperatorStateStore",
    "OperatorStateView",
    "OperatorTimers",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "Savepoint",
    "State",
    "StateCorruptedError",
    "StateDescriptor",
    "StateDescriptorError",
    "StateEncodingError",
    "StateError",
    "StateHandles",
    "StateMeta",
    "StatePickleError",
    "StateTtlConfig",
    "StateTypeError",
    "SubtaskState",
    "Timer",
    "TimerTable",
    "TimersView",
    "ValueState",
    "ValueStateDescriptor",
    "Version",
    "default_max_parallelism",
    "garbage",
    "key_group",
    "key_group_range",
    "latest_manifest",
    "list_manifests",
    "open_files",
    "read_manifest",
    "redistribute_list",
    "redistribute_union",
    "stable_hash",
    "subtask_of",
    "write_manifest",
]
