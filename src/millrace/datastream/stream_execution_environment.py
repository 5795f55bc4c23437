"""The start of every program: where sources come from and jobs are executed."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Self, cast

from millrace.common.config_options import ConfigOption, ConfigOptions
from millrace.common.configuration import Configuration
from millrace.common.errors import ProgramError, TypeMismatchError, short_repr
from millrace.common.job_client import JobClient
from millrace.common.job_execution_result import JobExecutionResult
from millrace.common.typeinfo import TypeInformation, Types
from millrace.common.watermark_strategy import WatermarkStrategy
from millrace.graph.job_options import JobOptions
from millrace.graph.plan_json import draw_plan, plan_json
from millrace.graph.stream_graph import NodeKind, StreamGraph
from millrace.runtime.operators.source import SourceOperator
from millrace.runtime.operators.stateless import MapOperator
from millrace.runtime.sources.base import Source
from millrace.runtime.sources.collection import CollectionSource
from millrace.runtime.sources.sequence import NumberSequenceSource
from millrace.runtime.sources.text import TextFileSource

from ._checks import at_site, require_instance, require_text, require_type
from ._defaults import environment_defaults
from ._durability import (
    backend_settings,
    checkpoint_options,
    next_ordinal,
    program_arguments,
    program_path,
    restore_options,
)
from ._execution import Executor, SubmittedJob, wait_for
from ._program import Outlet, Program, is_bounded, iterates
from ._settings import EnvironmentSettings
from ._sources import FunctionSource, SocketStream, row_type_of
from .data_stream import DataStream
from .execution_mode import RuntimeExecutionMode
from .functions import SourceFunction

__all__ = ["StreamExecutionEnvironment"]

# The most records that an epoch reads of each source: shorter epochs, and more of them.
_EPOCH_RECORDS: ConfigOption[int | None] = (
    ConfigOptions.key("millrace.epoch.max-records").int_type().no_default_value()  # type: ignore[assignment]
)

# Flink's name for a job that was given none.
_DEFAULT_JOB_NAME = "Flink Streaming Job"


class StreamExecutionEnvironment(EnvironmentSettings):
    """Where a program begins and is executed.

    Sources give streams, transformations on streams build up a graph, and `execute` runs what was built since the
    last time. A program without a sink (or other operator) behind its sources has nothing to execute.

    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> numbers = env.from_collection([1, 2, 3]).map(lambda number: number + 1)
    >>> print(env.draw_execution_plan(), end="")
    level 0
      [1] Source: Collection Source -> Map  x1
    """

    def __init__(self, executor: Executor | None = None, spark: Any = None) -> None:
        super().__init__()
        self._program = Program()
        self._executor = executor
        self._spark = spark

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, *, spark: Any = None
    ) -> StreamExecutionEnvironment:
        """A new environment, on its own local Spark or on the session that is given."""
        env = StreamExecutionEnvironment(spark=spark)
        env.configure(environment_defaults().configuration)
        if configuration is not None:
            env.configure(configuration)
        return env

    @staticmethod
    def create_with_executor(executor: Executor) -> StreamExecutionEnvironment:
        """An environment whose jobs another executor runs; `millrace.testing` has one."""
        return StreamExecutionEnvironment(executor)

    # --- sources ------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """The elements of a collection, in order, read by one subtask. A type is applied to them at once."""
        declared = require_type(type_info, "The type of the collection")
        if isinstance(collection, (str, bytes)) or not isinstance(collection, Iterable):
            raise ProgramError(at_site(f"from_collection takes a collection, not {short_repr(collection)}."))
        values = list(collection)
        if declared is not None:
            try:
                values = declared.coerce_batch(values)
            except TypeMismatchError as error:
                raise ProgramError(at_site(f"Element {error.index} of the collection: {error.message}.")) from error
        return self._add_source(CollectionSource(values), "Collection Source", declared, typed=declared is not None)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """The same for elements that are written out."""
        return self.from_collection(elements, type_info)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """The integers from `start` to `end`, both included, read by all subtasks."""
        source = NumberSequenceSource(start, end)
        return self._add_source(source, "Sequence Source", Types.LONG(), typed=True)

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The records of a source, with timestamps and watermarks made for each of its splits."""
        if not isinstance(source, Source):
            raise ProgramError(
                at_site(f"from_source takes a Source, not {short_repr(source)}."),
                action="Use one of millrace.datastream.connectors, or subclass Source.",
            )
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise ProgramError(
                at_site(f"from_source takes a WatermarkStrategy, not {short_repr(watermark_strategy)}."),
                action="Use WatermarkStrategy.no_watermarks() for a program without event time.",
            )
        declared = require_type(type_info, "The type of the source")
        return self._add_source(source, require_text("The source's name", source_name), declared, watermark_strategy)

    def add_source(
        self,
        source_func: SourceFunction | Source,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The records of a SourceFunction, or of a Source without event time."""
        require_instance(source_func, "add_source")
        if callable(getattr(source_func, "run", None)) and not isinstance(source_func, Source):
            source_func = FunctionSource(source_func)
        if not isinstance(source_func, Source):
            raise ProgramError(at_site(f"add_source takes a SourceFunction or a Source, not {source_func!r}."))
        return self._add_source(source_func, source_name, require_type(type_info, "The type of the source"))

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """The lines of a file, of the files of a directory, or of those that match a pattern."""
        source = TextFileSource(require_text("The path", file_path), charset_name)
        return self._add_source(source, "Text File Source", Types.STRING(), typed=True)

    def socket_text_stream(self, host: str, port: int) -> DataStream:
        """The lines that come from a socket, without end. Nothing is replayed: for trying things out."""
        stream = self._add_spark_source(SocketStream(host, port), "Socket Stream", None, 1, bounded=False)
        return stream._transform("Lines", MapOperator(itemgetter(0)), stream_type=Types.STRING())

    def from_data_frame(self, data_frame: Any) -> DataStream:
        """The rows of a Spark DataFrame, streaming or not, as Rows with the names of its columns."""
        if not hasattr(data_frame, "schema") or not hasattr(data_frame, "isStreaming"):
            raise ProgramError(at_site(f"from_data_frame takes a Spark DataFrame, not {short_repr(data_frame)}."))
        row_type = row_type_of(data_frame.schema)
        bounded = not data_frame.isStreaming
        return self._add_spark_source(data_frame, "DataFrame Source", row_type, self.get_parallelism(), bounded)

    def _add_source(
        self,
        source: Source,
        name: str,
        type_info: TypeInformation | None,
        strategy: WatermarkStrategy | None = None,
        typed: bool = False,
    ) -> DataStream:
        """A source of our own. `typed` tells that its records have their type already."""
        parallelism = self.get_parallelism()
        limit = source.max_parallelism
        operator = SourceOperator(source, strategy or WatermarkStrategy.no_watermarks())
        node = self._program.add(
            name,
            operator,
            (),
            parallelism if limit is None else min(limit, parallelism),
            NodeKind.SOURCE,
            bounded=source.bounded,
            output_type=None if typed else type_info,
        )
        if limit is not None:
            self._program.limits[node.id] = limit
        return DataStream(self, (Outlet(node.id),), type_info)

    def _add_spark_source(
        self, data_frame: Any, name: str, row_type: TypeInformation | None, parallelism: int, bounded: bool
    ) -> DataStream:
        operator = SourceOperator(None, WatermarkStrategy.no_watermarks())
        node = self._program.add(
            name, operator, (), parallelism, NodeKind.SOURCE, bounded=bounded, output_type=row_type
        )
        self._program.data_frames[node.id] = data_frame
        return DataStream(self, (Outlet(node.id),), row_type)

    # --- execution ------------------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run what was built since the last time, and wait for its end. Ctrl-C cancels the job."""
        return wait_for(self._submit(job_name))

    def execute_async(self, job_name: str = _DEFAULT_JOB_NAME) -> JobClient:
        """The same without waiting."""
        return cast("JobClient", self._submit(job_name))

    def get_execution_plan(self) -> str:
        """Flink's plan JSON of what `execute` would run."""
        return plan_json(self.get_stream_graph(clear=False))

    def draw_execution_plan(self) -> str:
        """The same as text: the chains, level by level."""
        return draw_plan(self.get_stream_graph(clear=False))

    def get_stream_graph(self, job_name: str | None = None, clear: bool = True) -> StreamGraph:
        """The graph of the next job, checked and with all settings resolved. With `clear` it counts as executed."""
        most = self._config.get_max_parallelism()
        graph = self._program.job_graph(
            job_name or self._job_name or _DEFAULT_JOB_NAME,
            self._chaining,
            most if most > 0 else None,
            not self._config.has_auto_generated_uids_enabled(),
        )
        if clear:
            self._program.pending.clear()
        return graph

    def _submit(self, job_name: str | None) -> SubmittedJob:
        graph = self.get_stream_graph(job_name, clear=False)
        options = self._job_options(graph)
        self._program.pending.clear()
        return self._get_executor().submit(graph, options)

    def _job_options(self, graph: StreamGraph) -> JobOptions:
        def part(entries: dict[int, Any]) -> dict[int, Any]:
            return {node_id: entry for node_id, entry in entries.items() if node_id in graph.nodes}

        most = self._config.get_max_parallelism()
        backend, backend_directory = backend_settings(self._backend)
        return JobOptions(
            job_name=graph.name,
            batch_mode=self._is_batch(graph),
            parameters=self._config.get_global_job_parameters(),
            cached_files=dict(self._cached_files),
            broadcast_variables=dict(self._broadcast_variables),
            configuration=self._configuration.to_dict(),
            python_path=self._python_path(),
            data_frames=part(self._program.data_frames),
            print_sinks=part(self._program.print_sinks),
            max_parallelism=most if most > 0 else None,
            buffer_timeout=self._buffer_timeout,
            checkpoints=checkpoint_options(self._checkpoint_config),
            restart_strategy=self._restart_strategy,
            restore=restore_options(self._configuration),
            savepoint_directory=self._savepoint_directory,
            backend=backend,
            backend_directory=backend_directory,
            epoch_records=self._configuration.get(_EPOCH_RECORDS),
            script=program_path(),
            arguments=program_arguments(),
            ordinal=next_ordinal(graph.name),
        )

    def _is_batch(self, graph: StreamGraph) -> bool:
        if self._mode is RuntimeExecutionMode.STREAMING:
            return False
        possible = is_bounded(graph) and not iterates(graph)
        if self._mode is RuntimeExecutionMode.BATCH and not possible:
            why = "iterates" if iterates(graph) else "has a source that never ends"
            raise ProgramError(
                f"BATCH mode cannot run this program: it {why}.",
                action="Use RuntimeExecutionMode.STREAMING or AUTOMATIC.",
            )
        return possible

    def _get_executor(self) -> Executor:
        if self._executor is None:
            make = environment_defaults().make_executor
            self._executor = make() if make is not None else self._spark_executor()
        return self._executor

    def _spark_executor(self) -> Executor:
        from millrace.spark.executor import SparkExecutor

        return SparkExecutor(self._spark, self._configuration.to_dict())

    def close(self) -> None:
        """Give back what the environment holds. A session that was handed in stays as it is."""
        executor, self._executor = self._executor, None
        close = getattr(executor, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
