"""Slot sharing groups: which operators may share a slot, and what a slot of the group needs."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.common.errors import ProgramError
from millrace.common.units import parse_memory_size

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1024


@dataclass(frozen=True, order=True, repr=False)
class MemorySize:
    """A number of bytes.

    >>> MemorySize.of_mebi_bytes(2).get_kibi_bytes()
    2048
    >>> MemorySize.parse("1 gb").get_mebi_bytes()
    1024
    """

    bytes_size: int

    def __post_init__(self) -> None:
        if self.bytes_size < 0:
            raise ProgramError(f"a memory size must not be negative, got {self.bytes_size} bytes")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes * _KIBI**2)

    @staticmethod
    def parse(text: str) -> MemorySize:
        """Reads sizes such as '64 mb'."""
        return MemorySize(parse_memory_size(text))

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size // _KIBI

    def get_mebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**2

    def get_gibi_bytes(self) -> int:
        return self.bytes_size // _KIBI**3

    def get_tebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**4

    def __repr__(self) -> str:
        return f"MemorySize({self.bytes_size} bytes)"


class SlotSharingGroup:
    """A named group, with the resources that one of its slots needs.

    >>> group = SlotSharingGroup.builder("models").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
    >>> group.get_name(), group.get_cpu_cores(), group.get_task_heap_memory()
    ('models', 2.0, MemorySize(536870912 bytes))
    """

    def __init__(
        self,
        name: str,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ProgramError(f"a slot sharing group has a name, got {name!r}")
        self._name = name
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    def get_name(self) -> str:
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Gathers the resources of a group."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            if cpu_cores <= 0:
                raise ProgramError(f"a slot needs a positive number of cores, got {cpu_cores}")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            self._external_resources[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                self._task_heap_memory,
                self._task_off_heap_memory,
                self._managed_memory,
                self._external_resources,
            )
