"""The comparison of signatures that the inventory rests on."""

import pytest

from tests.api.signatures import incompatibility


def same(a, b=1): ...
def more(a, b=1, c=2): ...
def keyword_only(a, b=1, *, c=2): ...
def anything(*args, **kwargs): ...
def renamed(a, other=1): ...
def swapped(b, a=1): ...
def without_default(a, b): ...
def demanding(a, b=1, *, c): ...
def fewer(a): ...


@pytest.mark.parametrize("function", [same, more, keyword_only, anything])
def test_what_takes_all_that_pyflink_takes_is_compatible(function) -> None:
    assert incompatibility(function, "a, b=None", bound=False) is None


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (renamed, r"takes (a, other) where PyFlink takes (a, b)"),
        (swapped, r"takes (b, a) where PyFlink takes (a, b)"),
        (without_default, "needs 'b', which PyFlink gives a default"),
        (demanding, "needs 'c', which PyFlink does not know"),
        (fewer, r"takes (a) where PyFlink takes (a, b)"),
    ],
)
def test_what_refuses_a_call_written_for_pyflink_is_not(function, reason: str) -> None:
    assert incompatibility(function, "a, b=None", bound=False) == reason


def test_a_bound_method_hides_its_self() -> None:
    class Holder:
        def method(self, a, b=None): ...

    assert incompatibility(Holder.method, "a, b=None", bound=True) is None


def test_args_and_kwargs_must_be_taken_where_pyflink_takes_them() -> None:
    assert incompatibility(same, "*streams", bound=False) == "does not take *args"
    assert incompatibility(same, "a, b=1, **options", bound=False) == "does not take **kwargs"
