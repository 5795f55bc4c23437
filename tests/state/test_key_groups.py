"""Which subtask owns a key. The values here are in every checkpoint: they must never change."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.common.errors import KeyHashError
from millrace.common.types import Row
from millrace.state import KeyRouter, default_max_parallelism, key_group, key_group_range, stable_hash, subtask_of
from millrace.state import key_groups as module


class Color(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


class Word(str, Enum):  # noqa: UP042 - not the same thing
    A = "a"


@dataclass(frozen=True)
class Point:
    x: int
    y: str


class Pair(NamedTuple):
    left: int
    right: str


GOLDEN: list[tuple[Any, int]] = [
    (0, 0xE220A8397B1DCDAF),
    (1, 0x910A2DEC89025CC1),
    (-1, 0xF3203E9039F4A821),
    (2**70, 0xFA9D65E76F024466),
    (1.5, 0x2049015CB3EC742B),
    ("a", 0xFD4F24A06615F184),
    ("", 0x6E789E6AA1B965F4),
    ("grüße", 0x1288C1A8ADCCA8E7),
    (b"a", 0xDA89E3F79D708E75),
    (None, 0x53CB9F0C747EA2EA),
    ((), 0x538454127B096493),
    ((1, "a"), 0xD7E2F004C24997F9),
    (((1,), 2), 0xD357D076A2D0BAA5),
    (frozenset({1, "a"}), 0x460E978AA5740105),
    (date(2024, 2, 29), 0x8E536966A0071DB4),
    (datetime(2024, 2, 29, 12, 30), 0xD5207577E841178A),  # noqa: DTZ001 - naive on purpose
    (time(1, 2, 3), 0xC6926F0DD12F0E0F),
    (timedelta(1, 2, 3), 0x3FF9EC84994814C7),
    (UUID(int=7), 0x698D505A3C424D9E),
    (Color.RED, 0x9263291D38D6DC48),
    (Point(1, "a"), 0xCDF1953129AEBD29),
    (Row(1, "a"), 0x7E208D4184F4C33D),
    (math.inf, 0x96630E6FAE660D48),
    (Decimal("0.1"), 0xCA1728592FFED617),
]


@pytest.mark.parametrize(("key", "expected"), GOLDEN, ids=repr)
def test_the_hash_of_a_key_never_changes(key: Any, expected: int) -> None:
    assert stable_hash(key) == expected


def test_the_hash_is_the_same_in_a_process_with_another_hash_seed() -> None:
    program = "from millrace.state.hashing import stable_hash; print(stable_hash(('a', b'b', frozenset({'c', 'd'}))))"
    source = Path(module.__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {b"%d\n" % stable_hash(("a", b"b", frozenset({"c", "d"})))}


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), Level.LOW, 1 + 0j),
        (0, 0.0, -0.0, False),
        ("a", Word.A),
        ((1, "a"), Pair(1, "a"), (1.0, "a")),
        (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
        (time(12, tzinfo=UTC), time(13, tzinfo=timezone(timedelta(hours=1)))),
        (Point(1, "a"), Point(1.0, "a")),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_equal_keys_have_equal_hashes(equal: tuple[Any, ...]) -> None:
    assert len(set(equal)) == 1
    assert len({stable_hash(key) for key in equal}) == 1


def test_a_string_its_bytes_and_its_number_differ() -> None:
    assert len({stable_hash(key) for key in ("1", b"1", 1, ("1",), None)}) == 5


class ByIdentity:
    pass


class OwnHash:
    def __hash__(self) -> int:
        return 1


class CaseBlind(str):
    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self.lower())


@dataclass(frozen=True)
class OwnHashed:
    x: str

    def __hash__(self) -> int:
        return hash(self.x.lower())


@dataclass(unsafe_hash=True)
class Changeable:
    x: int


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ([1], "a list can change"),
        ({"a": 1}, "a dict can change"),
        ((1, [2]), "a list can change"),
        (math.nan, "NaN cannot be a key"),
        (Decimal("NaN"), "NaN cannot be a key"),
        (ByIdentity(), "hashes by identity"),
        (OwnHash(), "the hash of OwnHash is its own"),
        (CaseBlind("A"), "the hash of CaseBlind is its own"),
        (OwnHashed("A"), "the hash of OwnHashed is its own"),
        (Changeable(1), "the hash of Changeable is its own"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_key_without_a_stable_hash_is_refused_with_what_to_use_instead(key: Any, says: str) -> None:
    with pytest.raises(KeyHashError, match=says) as caught:
        stable_hash(key)
    assert "Action:" in str(caught.value)


def test_keys_spread_evenly_over_key_groups() -> None:
    for keys in (range(12_800), [f"user-{n}" for n in range(12_800)], [(n, "x") for n in range(12_800)]):
        counts = Counter(key_group(key, 128) for key in keys)
        assert len(counts) == 128
        assert max(counts.values()) < 150


@given(st.integers(1, 300), st.integers(0, 200))
def test_ranges_of_key_groups_are_the_owners_of_their_key_groups(parallelism: int, more: int) -> None:
    groups = parallelism + more
    ranges = [key_group_range(subtask, parallelism, groups) for subtask in range(parallelism)]
    owners = {group: subtask for subtask, owned in enumerate(ranges) for group in owned}
    assert owners == {group: subtask_of(group, parallelism, groups) for group in range(groups)}
    assert all(ranges)


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (200, 512), (20_000, 32_768), (32_768, 32_768)]
)
def test_the_default_number_of_key_groups_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_a_router_remembers_and_forgets_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMO_LIMIT", 10)
    router = KeyRouter(4, 128)
    assert [router[key] for key in range(25)] == [subtask_of(key_group(key, 128), 4, 128) for key in range(25)]
    assert len(router) == 5


def test_a_router_names_the_unhashable_key() -> None:
    router = KeyRouter(4, 128)
    assert router.route(["a", "b", "a"]) == [router["a"], router["b"], router["a"]]
    with pytest.raises(KeyHashError, match=r"\[3\] cannot be a key: a list can change"):
        router.route(["a", [3]])
