from __future__ import annotations

import pickle

import pytest

from millrace.common import errors
from millrace.common.errors import (
    ConfigurationError,
    JobExecutionError,
    JvmOnlyError,
    MillraceError,
    ProgramError,
    TypeMismatchError,
    short_repr,
)

CLASSES = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, MillraceError)]


def make(cls: type[MillraceError]) -> MillraceError:
    if cls is TypeMismatchError:
        return TypeMismatchError("LONG", "x", action="Declare STRING.").inside("[2]").inside("a")
    return cls("it broke", action="Mend it.")


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_survives_pickling(cls):
    error = make(cls)
    error.add_note("seen")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_shows_its_code_and_ends_with_its_action(cls):
    lines = str(make(cls)).splitlines()
    assert lines[0].startswith(f"[{cls.default_code}] ")
    assert lines[-1].startswith("Action: ")


def test_no_two_errors_share_a_code_and_the_tree_names_them_all():
    codes = [cls.default_code for cls in CLASSES]
    assert len(set(codes)) == len(codes)
    drawn = [cls for cls in CLASSES if cls.default_code < "MR-3003"]
    assert all(f"{cls.__name__} " in errors.__doc__ and cls.default_code in errors.__doc__ for cls in drawn)


def test_an_error_may_carry_a_code_of_its_own():
    assert str(ProgramError("no uid", code="MR-1203")) == "[MR-1203] no uid"


def test_errors_can_be_caught_as_what_python_calls_them():
    assert issubclass(TypeMismatchError, TypeError)
    assert issubclass(ConfigurationError, ValueError)


def test_a_mismatch_knows_its_place():
    error = make(TypeMismatchError)
    assert (error.path, error.value_repr, error.python_type, error.expected) == ("a[2]", "'x'", "str", "LONG")
    assert error.index is None
    assert error.args == (error.message,) == ("field 'a[2]': expected LONG, got str 'x'",)


def test_a_failed_job_tells_everything_it_knows():
    error = JobExecutionError(
        "ValueError: bad",
        operator_name="map-1",
        function_name="parse",
        location="job.py:12",
        record={"a": 1},
        traceback_text="Traceback ...\n",
        action="Look at the record.",
    )
    assert str(error).splitlines() == [
        "[MR-2001] ValueError: bad",
        "  operator: map-1",
        "  function: parse",
        "  at: job.py:12",
        "  record: {'a': 1}",
        "Traceback ...",
        "Action: Look at the record.",
    ]
    assert JobExecutionError("x", record_repr="as sent").record_repr == "as sent"


def test_a_jvm_only_name_says_what_to_do():
    assert str(JvmOnlyError.of("add_jars")) == (
        "[MR-1005] add_jars needs a JVM, which Millrace does not have\n"
        "Action: Remove the call; Millrace works without it."
    )


def test_a_repr_that_raises_or_is_long_is_shortened():
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    class Long:
        def __repr__(self) -> str:
            return "x" * 1000

    assert short_repr(Bad()).startswith("<Bad ")
    assert len(short_repr(Long())) <= 120
    assert len(short_repr("y" * 1000)) <= 120
