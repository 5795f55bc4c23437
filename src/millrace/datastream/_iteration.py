"""Iterations: a stream into which later results are fed back."""

from __future__ import annotations

from millrace.common.errors import ProgramError
from millrace.runtime.operators.feedback import FeedbackTail

from ._checks import at_site
from ._data_stream import DataStream


class IterativeStream(DataStream):
    """The entry of an iteration. What is fed back enters it again in the next epoch.

    A program ends when its sources have ended and nothing is fed back any more: records that go round for ever keep
    it running. Watermarks do not pass the feedback, so that it never holds back event time.

        counts = env.from_collection([3, 1]).iterate()
        less = counts.map(lambda count: count - 1)
        counts.close_with(less.filter(lambda count: count > 0))
        less.filter(lambda count: count == 0).print()
    """

    def close_with(self, feedback_stream: DataStream) -> DataStream:
        """Feed a stream back to the entry. It must stem from this iteration."""
        head = self._outlets[0].node_id
        roots = [outlet.node_id for outlet in feedback_stream._outlets]
        program = self._env._program
        if head not in program.graph.upstream_closure(roots).nodes:
            raise ProgramError(
                at_site("The feedback stream does not stem from this iteration."),
                action="Feed back what was made of the stream that iterate() gave you.",
            )
        parallelism = program.graph.nodes[head].parallelism
        name = program.graph.nodes[head].name.replace("Source", "Sink")
        program.add(name, FeedbackTail(head), (feedback_stream._outlets,), parallelism)
        return feedback_stream
