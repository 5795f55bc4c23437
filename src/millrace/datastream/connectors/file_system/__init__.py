"""Files as sources and sinks."""

from ._compaction import FileCompactor, FileCompactStrategy
from ._encoding import ColumnarWriterFactory, SchemaEncoder
from ._policies import BucketAssigner, OutputFileConfig, PartFile, RollingPolicy
from ._sink import FileSink

__all__ = [
    "BucketAssigner",
    "ColumnarWriterFactory",
    "FileCompactStrategy",
    "FileCompactor",
    "FileSink",
    "OutputFileConfig",
    "PartFile",
    "RollingPolicy",
    "SchemaEncoder",
]
