"""What an operator knows about where it runs, and what a rich function is given in `open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.common.errors import ProgramError
from millrace.runtime.accumulators import Accumulator
from millrace.runtime.metrics import OperatorMetricGroup

if TYPE_CHECKING:
    from millrace.graph.job_graph import Vertex
    from millrace.graph.stream_graph import StreamNode
    from millrace.runtime.epoch import JobSettings
    from millrace.runtime.rows import SinkRecords
    from millrace.runtime.subtask import Subtask


class OperatorContext:
    """One operator's view of its subtask."""

    def __init__(self, owner: Subtask, node: StreamNode, keyed: bool) -> None:
        self._owner = owner
        self.node_id = node.id
        self.keyed = keyed
        self.committables: list[Any] = []
        self.metrics = OperatorMetricGroup()
        self.accumulators: dict[str, Accumulator[Any]] = {}
        self.runtime_context = RuntimeContext(self, owner.vertex, node.name, owner.index, owner.settings)
        self._node = node

    @property
    def backends(self) -> Any:
        """The operator's state: keyed, operator and timers."""
        return self._owner.backends(self._node)

    @property
    def uid(self) -> str:
        """What tells the operator from the others, across restarts."""
        return self._node.state_id

    @property
    def subtask(self) -> int:
        """Index of the subtask."""
        return self._owner.index

    @property
    def parallelism(self) -> int:
        """How many subtasks there are."""
        return self._owner.vertex.parallelism

    @property
    def rescaled(self) -> bool:
        """Whether the state of this epoch was gathered from subtasks of another run of the program."""
        return self._owner.rescaled

    @property
    def trusts_state(self) -> bool:
        """Whether pickles in the state may be loaded."""
        return self._owner.trusts_state

    @property
    def batch_mode(self) -> bool:
        """Whether the job runs in BATCH mode."""
        return self._owner.settings.batch_mode

    @property
    def processing_time(self) -> int:
        """The epoch's processing time."""
        return self._owner.epoch.processing_time

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self._owner.epoch.number

    @property
    def restored(self) -> bool:
        """Whether the epoch goes on from the state of one before it."""
        return self._owner.restored

    @property
    def keeps_state(self) -> bool:
        """Whether an epoch may follow that needs the state."""
        return self._owner.epoch.keep_state

    @property
    def final(self) -> bool:
        """Whether this is the job's last epoch."""
        return self._owner.epoch.final

    @property
    def feedback(self) -> list[bytes]:
        """What was fed back to this subtask in the epoch before."""
        return self._owner.feedback()

    def feed_back(self, head: int, payload: bytes) -> None:
        """Keep something for the head of an iteration."""
        self._owner.feed_back(head, payload)

    def to_driver(self, records: SinkRecords) -> None:
        """Hand records to the driver."""
        self._owner.to_driver(records)


class RuntimeContext:
    """Where a function runs, and its state. Given to `open`."""

    def __init__(
        self, context: OperatorContext, vertex: Vertex, name: str, index: int, settings: JobSettings
    ) -> None:
        self._context = context
        self._vertex = vertex
        self._name = name
        self._index = index
        self._settings = settings

    def get_task_name(self) -> str:
        """Name of the operator."""
        return self._name

    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""
        return self._vertex.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The operator's max parallelism: the number of its key groups."""
        return self._vertex.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""
        return self._index

    def get_attempt_number(self) -> int:
        """How often the job was restarted."""
        return self._settings.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Name, index (from 1), parallelism and attempt, as Flink writes them in logs."""
        place = f"({self._index + 1}/{self._vertex.parallelism})"
        return f"{self._name} {place}#{self._settings.attempt}"

    def get_operator_unique_id(self) -> str:
        """The operator's uid, given or made up: the same after a restart."""
        return self._context.uid

    def get_checkpoint_id(self) -> int:
        """Number of the epoch in progress, and of the checkpoint that may end it."""
        return self._context.epoch

    def get_processing_time(self) -> int:
        """The epoch's processing time, in milliseconds."""
        return self._context.processing_time

    def get_checkpoint_directory(self) -> str:
        """Where the files of the job are: its directory below the checkpoint directory, or a temporary one."""
        return self._settings.directory

    def get_job_id(self) -> str:
        """The job's id."""
        return self._settings.job_id

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A global job parameter (`env.get_config().set_global_job_parameters`)."""
        return self._settings.parameters.get(key, default_value)

    def get_metrics_group(self) -> OperatorMetricGroup:
        """Where to register metrics."""
        return self._context.metrics

    # --- accumulators, broadcast variables, cached files ------------------------------------------------

    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Register an accumulator; the job's result holds its merged value."""
        if name in self._context.accumulators:
            raise ProgramError(
                f"There is an accumulator {name!r} already in operator {self._name!r}.",
                action="Register each name once, in open().",
            )
        self._context.accumulators[name] = accumulator

    def get_accumulator(self, name: str) -> Accumulator[Any]:
        """An accumulator that this function registered."""
        try:
            return self._context.accumulators[name]
        except KeyError:
            raise ProgramError(
                f"There is no accumulator {name!r} in operator {self._name!r}.",
                action="Register it in open() with add_accumulator(name, accumulator).",
            ) from None

    def get_broadcast_variable(self, name: str) -> Any:
        """A value that the program gave to all functions (`env.register_broadcast_variable`)."""
        return _known(self._settings.broadcast_variables, name, "broadcast variable")

    def get_cached_file(self, name: str) -> str:
        """The local path of a file that the program gave to all functions (`env.register_cached_file`)."""
        return str(_known(self._settings.cached_files, name, "cached file"))

    def get_distributed_cache(self) -> RuntimeContext:
        """The home of `get_file`, as in Flink."""
        return self

    def get_file(self, name: str) -> str:
        """The same as `get_cached_file`."""
        return self.get_cached_file(name)

    # --- keyed state -------------------------------------------------------------------------------------

    def get_state(self, state_descriptor: Any) -> Any:
        """Keyed state that the descriptor names: a ValueState for a ValueStateDescriptor, and so on."""
        if not self._context.keyed:
            raise ProgramError(
                f"Operator {self._name!r} asks for keyed state {state_descriptor.name!r}, but its input has no key.",
                action="Put key_by(...) in front of it, or use operator state (CheckpointedFunction).",
            )
        return self._context.backends.keyed.get_state(state_descriptor)

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


def _known(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise ProgramError(
            f"There is no {what} {name!r}; known: {', '.join(sorted(known)) or 'none'}.",
            action="Register it on the environment before execute().",
        )
    return known[name]
