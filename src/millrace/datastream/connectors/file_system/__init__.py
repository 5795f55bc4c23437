"""Files as sources and sinks."""

from ._compaction import FileCompactor, FileCompactStrategy
from ._encoding import ColumnarWriterFactory, SchemaEncoder
from ._formats import BulkFormat, Extent, FileFormat, InputFile, StreamFormat
from ._listing import FileEnumeratorProvider, FileSplitAssignerProvider
from ._policies import BucketAssigner, OutputFileConfig, PartFile, RollingPolicy
from ._sink import FileSink
from ._source import FileSource, FileSourceBuilder

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "ColumnarWriterFactory",
    "Extent",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileFormat",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "InputFile",
    "OutputFileConfig",
    "PartFile",
    "RollingPolicy",
    "SchemaEncoder",
    "StreamFormat",
]
