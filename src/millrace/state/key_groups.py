"""Key groups: the unit in which keyed state is spread over subtasks, and moved when a job is rescaled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millrace.state.hashing import stable_hash

# Flink's bounds. The upper one is also the most subtasks that a keyed operator can ever have.
LOWER_BOUND_MAX_PARALLELISM = 128
UPPER_BOUND_MAX_PARALLELISM = 1 << 15

# Past this many keys the memo costs more memory than the hashing that it saves: about 100 MB of short strings.
_MEMO_LIMIT = 1_000_000


def default_max_parallelism(parallelism: int) -> int:
    """The number of key groups where the program does not say: Flink's formula.

    >>> default_max_parallelism(4), default_max_parallelism(200)
    (128, 512)
    """
    wanted = parallelism + parallelism // 2
    rounded = 1 << max(0, wanted - 1).bit_length()
    return min(max(rounded, LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def key_group(key: Any, max_parallelism: int) -> int:
    """The key group of a key."""
    return stable_hash(key) % max_parallelism


def subtask_of(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask that owns a key group.

    >>> [subtask_of(group, 3, 8) for group in range(8)]
    [0, 0, 0, 1, 1, 1, 2, 2]
    """
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups that a subtask owns.

    >>> [key_group_range(subtask, 3, 8) for subtask in range(3)]
    [range(0, 3), range(3, 6), range(6, 8)]
    """
    start = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(start, end)


class KeyRouter(dict[Any, int]):
    """Remembers which subtask a key goes to: `router[key]`. A key that cannot be one raises `KeyHashError`.

    An unhashable key raises a plain `TypeError` from `router[key]`; `route` names it.
    """

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        super().__init__()
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism

    def __missing__(self, key: Any) -> int:
        if len(self) >= _MEMO_LIMIT:
            self.clear()
        subtask = subtask_of(key_group(key, self.max_parallelism), self.parallelism, self.max_parallelism)
        self[key] = subtask
        return subtask

    def route(self, keys: Iterable[Any]) -> list[int]:
        """The subtask of each key."""
        keys = list(keys)
        try:
            return [self[key] for key in keys]
        except TypeError:
            for key in keys:
                stable_hash(key)
            raise
