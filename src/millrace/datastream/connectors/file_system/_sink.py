"""The file sink and its builders."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from millrace.common.errors import ProgramError, short_repr
from millrace.common.serialization import BulkWriterFactory, Encoder, SerializationSchema
from millrace.runtime.context import RuntimeContext

from ..base import Committer, Sink, SinkWriter
from ._committer import FileCommitter
from ._compaction import FileCompactor, FileCompactStrategy
from ._encoding import EncodedFiles, SchemaEncoder
from ._policies import BucketAssigner, OutputFileConfig, RollingPolicy
from ._storage import absolute
from ._writer import BatchFileWriter, FileSinkSettings, FileWriter

__all__ = ["FileSink"]


class FileSink(Sink):
    """Writes files into a directory that the driver and all workers see, each record exactly once.

    A file appears, whole, when the checkpoint with its records is complete; without checkpoints, at the end of its
    epoch. Until then it lies in `.staging`, which readers skip. Every subtask ends its files with the epoch: where
    small files are a burden, let checkpoints merge them.

    >>> from millrace.common.serialization import Encoder
    >>> sink = (
    ...     FileSink.for_row_format("/data/out", Encoder.simple_string_encoder())
    ...     .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd"))
    ...     .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
    ...     .enable_compact(FileCompactStrategy.builder().set_size_threshold(64 << 20).build())
    ...     .build()
    ... )
    """

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder | SerializationSchema) -> FileSink.RowFormatBuilder:
        """Records one after the other: an encoder, or a schema whose bytes become lines."""
        if isinstance(encoder, SerializationSchema):
            encoder = SchemaEncoder(encoder)
        if not isinstance(encoder, Encoder):
            raise ProgramError(
                f"for_row_format takes an Encoder or a SerializationSchema, not {short_repr(encoder)}.",
                action="Use Encoder.simple_string_encoder() for what str() makes of the records.",
            )
        policy, compactor = RollingPolicy.default_rolling_policy(), FileCompactor.concat_file_compactor()
        return FileSink.RowFormatBuilder(base_path, EncodedFiles(encoder), policy, compactor)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Records that stand together, such as in Parquet."""
        if not callable(getattr(writer_factory, "create", None)):
            raise ProgramError(
                f"for_bulk_format takes a BulkWriterFactory, not {short_repr(writer_factory)}.",
                action="Use ColumnarWriterFactory(type_info) for Parquet, or subclass BulkWriterFactory.",
            )
        return FileSink.BulkFormatBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy(), None)

    def create_writer(self, runtime_context: RuntimeContext) -> SinkWriter:
        cls = FileWriter if self._settings.assigner.by_record else BatchFileWriter
        return cls(self._settings, runtime_context)

    def create_committer(self) -> Committer:
        return FileCommitter(self._settings)

    class BaseBuilder:
        """What both formats have."""

        def __init__(
            self, base_path: str, factory: BulkWriterFactory, policy: RollingPolicy, compactor: FileCompactor | None
        ) -> None:
            if not isinstance(base_path, str) or not base_path:
                raise ProgramError(f"A file sink needs a directory, got {short_repr(base_path)}.")
            assigner = BucketAssigner.date_time_bucket_assigner()
            names = OutputFileConfig("part", "")
            self._settings = FileSinkSettings(absolute(base_path), factory, assigner, policy, names)
            self._default_compactor = compactor

        def _with(self, **changed: object) -> Self:
            self._settings = replace(self._settings, **changed)  # type: ignore[arg-type]
            return self

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Taken for the sake of programs that set it: files end with their epochs, nobody has to look."""
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Which folder a record goes to. By default one for each hour, as in Flink."""
            return self._with(assigner=bucket_assigner)

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """When a file is complete before its epoch is."""
            return self._with(policy=rolling_policy)

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """How files are called."""
            return self._with(names=output_file_config)

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor | None = None) -> Self:
            """Merge the small files of a checkpoint before they appear. Rows are concatenated by default."""
            compactor = compactor or self._default_compactor
            if compactor is None:
                raise ProgramError(
                    "A bulk format needs a compactor that knows it.",
                    action="Give FileCompactor.parquet_file_compactor(), or a FileCompactor of your own.",
                )
            return self._with(strategy=strategy, compactor=compactor)

        def disable_compact(self) -> Self:
            """Leave small files as they are. This is the default."""
            return self._with(strategy=None, compactor=None)

        def build(self) -> FileSink:
            """The sink."""
            return FileSink(self._settings)

    class RowFormatBuilder(BaseBuilder):
        """See `FileSink.for_row_format`."""

    class BulkFormatBuilder(BaseBuilder):
        """See `FileSink.for_bulk_format`."""
