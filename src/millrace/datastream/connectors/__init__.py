"""Sources and sinks."""

from .base import Committer, DeliveryGuarantee, Sink, SinkWriter, Source
from .datagen import DataGeneratorSource
from .number_seq import NumberSequenceSource
from .text_sink import TextFileSink

__all__ = [
    "Committer",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "NumberSequenceSource",
    "Sink",
    "SinkWriter",
    "Source",
    "TextFileSink",
]
