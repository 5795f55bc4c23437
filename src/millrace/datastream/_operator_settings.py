"""What can be set on an operator after it was added: on a DataStream and on a DataStreamSink alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from millrace.common.errors import NotSupportedError, ProgramError
from millrace.graph.stream_graph import ChainingStrategy, StreamNode
from millrace.runtime.operators.base import ErrorPolicy
from millrace.runtime.output_tag import OutputTag

from ._checks import at_site, error_policy, require_buffer_timeout, require_parallelism, require_text
from ._program import label
from .slot_sharing_group import SlotSharingGroup

if TYPE_CHECKING:
    from .stream_execution_environment import StreamExecutionEnvironment


class OperatorSettings:
    """Settings of the operator that stands last. Each returns the stream, so that calls can be chained."""

    _env: StreamExecutionEnvironment

    def _node(self, setting: str) -> StreamNode:
        """The operator that a setting is for."""
        raise NotImplementedError

    def get_name(self) -> str:
        """The operator's name."""
        node = self._node("get_name")
        return self._env._program.plain_name(node)

    def name(self, name: str) -> Self:
        """A name for plans, errors and metrics."""
        self._env._program.rename(self._node("name"), require_text("The name", name))
        return self

    def uid(self, uid: str) -> Self:
        """What the operator's state is found by when the program changes. Unique in the program."""
        self._node("uid").uid = require_text("The uid", uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Flink's way to take over the state of a job of its own, which there is none of here."""
        raise NotSupportedError(
            f"set_uid_hash({uid_hash!r}) names an operator by Flink's hash, which Millrace does not make.",
            action="Use uid(...).",
        )

    def set_description(self, description: str) -> Self:
        """What an execution plan says about the operator."""
        self._node("set_description").description = description
        return self

    # --- parallelism ----------------------------------------------------------------------------------------

    def set_parallelism(self, parallelism: int) -> Self:
        """The number of subtasks."""
        node = self._node("set_parallelism")
        require_parallelism(f"The parallelism of {node.name!r}", parallelism)
        limit = self._env._program.limits.get(node.id)
        if limit is not None and parallelism > limit:
            raise ProgramError(
                at_site(f"{node.name!r} is read by at most {limit} subtask(s), got parallelism {parallelism}."),
                action="Set the parallelism of the operator behind it.",
            )
        node.parallelism = parallelism
        node.parallelism_set = True
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """The number of key groups, and with it the most subtasks that the operator can ever have."""
        node = self._node("set_max_parallelism")
        node.max_parallelism = require_parallelism(f"The max parallelism of {node.name!r}", max_parallelism)
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask for good."""
        node = self._node("force_non_parallel")
        node.parallelism = node.max_parallelism = 1
        node.parallelism_set = True
        self._env._program.limits[node.id] = 1
        return self

    # --- chaining and slots -----------------------------------------------------------------------------------

    def disable_chaining(self) -> Self:
        """Chain the operator with neither neighbour."""
        self._node("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator with the one before it."""
        self._node("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Run the operator in slots of its own group; what follows inherits it."""
        node = self._node("slot_sharing_group")
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._env.register_slot_sharing_group(slot_sharing_group)
            slot_sharing_group = slot_sharing_group.get_name()
        self._env._program.slot_groups[node.id] = require_text("The slot sharing group", slot_sharing_group)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """How long a record may wait for others behind this operator."""
        self._node("set_buffer_timeout").buffer_timeout = require_buffer_timeout(timeout_millis)
        return self

    # --- bad records ----------------------------------------------------------------------------------------

    def on_error(self, policy: ErrorPolicy | OutputTag | str) -> Self:
        """What a record does on which the operator's function fails.

        `"fail"` (the default) fails the job, `"skip"` leaves it out and counts it, an OutputTag sends it to that
        side output as a `BadRecord` with its error.
        """
        self._node("on_error").operator.policy = error_policy(policy)
        return self


def refuse_view(setting: str, kind: str, node: StreamNode | None) -> Any:
    """A setting on what is no operator."""
    near = "" if node is None else f" such as {label(node)}"
    raise ProgramError(
        at_site(f"{setting} is for an operator, and this is {kind}."),
        action=f"Call it directly behind the operator{near}.",
    )
