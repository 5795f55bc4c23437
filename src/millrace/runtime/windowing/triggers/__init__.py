"""Triggers: they tell when a window's contents become a result, and when they are thrown away."""

from .base import Trigger, TriggerResult
from .continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from .count import CountTrigger
from .delta import DeltaTrigger
from .never import NeverTrigger
from .purging import PurgingTrigger
from .time import EventTimeTrigger, ProcessingTimeTrigger
from .timeout import ProcessingTimeoutTrigger

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
]
