"""One window for all records of a key."""

from __future__ import annotations

from typing import Any

from millrace.common.serializer import TypeSerializer

from ..serializers import GlobalWindowSerializer
from ..triggers import NeverTrigger, Trigger
from ..windows import GlobalWindow
from .base import WindowAssigner


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window that never ends. Without a trigger of the program's own it never fires."""

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext | None
    ) -> list[GlobalWindow]:
        return [GlobalWindow()]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Any]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
