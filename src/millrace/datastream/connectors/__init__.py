"""Sources and sinks."""

from .base import Committer, CommitterContext, DeliveryGuarantee, Sink, SinkWriter, Source
from .datagen import DataGeneratorSource
from .number_seq import NumberSequenceSource
from .text_sink import TextFileSink
from .write_ahead import WriteAheadSink

__all__ = [
    "Committer",
    "CommitterContext",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "NumberSequenceSource",
    "Sink",
    "SinkWriter",
    "Source",
    "TextFileSink",
    "WriteAheadSink",
]
