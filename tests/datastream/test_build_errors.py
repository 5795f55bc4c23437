"""Mistakes that show while the program is built: each is an error that names the operator and the line."""

import re
from typing import Any

import pytest

from millrace.common import NotSupportedError, ProgramError, Types
from millrace.common.errors import MillraceError
from millrace.datastream import (
    BroadcastProcessFunction,
    DataStream,
    FilterFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from millrace.datastream.connectors import DataGeneratorSource, NumberSequenceSource
from millrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.datastream.fakes import environment


class Mapper(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Filter(FilterFunction):
    def filter(self, value: Any) -> bool:
        return True


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class CoKeyed(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


class KeyedRules(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


RULES = MapStateDescriptor("rules")
ROWS = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def numbers() -> DataStream:
    return environment().from_sequence(1, 3)


def rows() -> DataStream:
    return environment().from_collection([("a", 1)], ROWS)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: numbers().map(Mapper), "map was given the class Mapper instead of an instance"),
        (lambda: numbers().map(Filter()), "map takes a MapFunction or a callable, not the FilterFunction Filter"),
        (lambda: numbers().map(3), "map takes a MapFunction or a callable, not 3"),
        (lambda: numbers().filter(Mapper()), "filter takes a FilterFunction or a callable, not the MapFunction"),
        (lambda: numbers().flat_map(None), "flat_map takes a FlatMapFunction or a callable, not None"),
        (lambda: numbers().key_by(0).reduce(Mapper()), "reduce takes a ReduceFunction or a callable"),
        (lambda: numbers().process(Keyed()), "cannot run the KeyedProcessFunction Keyed"),
        (lambda: numbers().process(CoKeyed()), "cannot run the KeyedCoProcessFunction CoKeyed"),
        (lambda: numbers().process(Keyed), "process was given the class Keyed"),
        (lambda: numbers().process(lambda value: value), "process takes a ProcessFunction"),
        (lambda: numbers().key_by(0).process(CoKeyed()), "process on one stream cannot run"),
        (lambda: numbers().connect(numbers()), "different environments"),
        (lambda: numbers().union([1]), r"union takes DataStreams, not \[1\]"),
        (lambda: numbers().connect(7), "connect takes a DataStream or a BroadcastStream, not 7"),
        (lambda: numbers().broadcast(ValueStateDescriptor("v")), "broadcast takes MapStateDescriptors"),
        (lambda: numbers().broadcast(RULES, RULES), "stands twice"),
        (lambda: numbers().key_by(3.5), "key_by takes a callable"),
        (lambda: numbers().key_by("a..b"), "no field expression"),
        (lambda: rows().key_by("size"), "no field 'size' .* it has name, age"),
        (lambda: rows().key_by(2), "no field 2 in"),
        (lambda: rows().project(5), "no field 5 in"),
        (lambda: rows().project(-1), "project takes the positions"),
        (lambda: rows().project(), "project takes the positions"),
        (lambda: rows().key_by(0).sum(1.5), "sum takes a field's position or name"),
        (lambda: numbers().map(str, str), "output_type of 'Map' is .*str.*, which is no type information"),
        (lambda: numbers().key_by(0, str), "key_type is"),
        (lambda: numbers().assign_timestamps_and_watermarks(3), "takes a WatermarkStrategy"),
        (lambda: numbers().on_error("ignore"), "on_error takes 'fail', 'skip'"),
        (lambda: numbers().get_side_output("late"), "get_side_output takes an OutputTag, not 'late'"),
        (lambda: numbers().sink_to(print), "sink_to takes a Sink"),
        (lambda: numbers().add_sink(Mapper()), "add_sink takes a SinkFunction or a callable"),
        (lambda: numbers().execute_and_collect(limit=0), "limit must be positive"),
        (lambda: numbers().key_by(0).rebalance(), "distributed by its key"),
        (lambda: numbers().key_by(0).name("x"), "name is for an operator, and this is a stream by key"),
        (lambda: numbers().rebalance().set_parallelism(2), "this is a stream that is distributed"),
        (lambda: numbers().name(""), "name must be a string that is not empty"),
        (lambda: numbers().uid(7), "uid must be a string"),
        (lambda: numbers().slot_sharing_group(""), "slot sharing group must be a string"),
        (lambda: numbers().set_parallelism(0), "parallelism of 'Source: Sequence Source' must be an int from 1"),
        (lambda: numbers().set_parallelism(True), "must be an int"),
        (lambda: numbers().set_max_parallelism(-1), "max parallelism of .* must be an int from 1"),
        (lambda: numbers().set_buffer_timeout(-2), "buffer timeout"),
        (lambda: environment().set_parallelism(-1), "The parallelism must be an int from 1"),
        (lambda: environment().set_parallelism(0), "The parallelism must be an int from 1"),
        (lambda: environment().set_max_parallelism(0), "The max parallelism must be"),
        (lambda: environment().set_runtime_mode("BATCH"), "takes a RuntimeExecutionMode"),
        (lambda: environment().from_collection([1]).set_parallelism(2), "read by at most 1"),
        (lambda: environment().from_collection(7), "takes a collection, not 7"),
        (lambda: environment().from_collection("abc"), "takes a collection, not 'abc'"),
        (lambda: environment().from_collection([1, "x"], Types.INT()), "Element 1 of the collection"),
        (lambda: environment().from_source([1], None, "s"), r"from_source takes a Source, not \[1\]"),
        (lambda: environment().from_source(NumberSequenceSource(1, 2), None, "s"), "takes a WatermarkStrategy"),
        (lambda: environment().add_source(3), "add_source takes a SourceFunction"),
        (lambda: environment().from_data_frame([1]), r"takes a Spark DataFrame, not \[1\]"),
        (lambda: numbers().iterate().close_with(numbers()), "does not stem from this iteration"),
    ],
)
def test_a_mistake_is_named_with_the_line_that_made_it(build: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        build()
    assert f"(at {__file__}:" in caught.value.message


def test_a_process_function_that_needs_a_key_says_what_to_do() -> None:
    with pytest.raises(ProgramError) as caught:
        numbers().process(Keyed())
    assert caught.value.action == "Put key_by(...) in front of process(...)."


def test_broadcast_process_functions_are_told_apart_by_the_key() -> None:
    stream = numbers()
    rules = stream.broadcast(RULES)
    with pytest.raises(ProgramError, match=re.escape("Put key_by(...) in front of connect(...)")):
        stream.connect(rules).process(KeyedRules())
    with pytest.raises(ProgramError, match="Subclass KeyedBroadcastProcessFunction"):
        stream.key_by(lambda n: n).connect(rules).process(Rules())


def test_a_keyed_co_process_function_needs_both_keys() -> None:
    stream = numbers()
    with pytest.raises(ProgramError, match="without keys"):
        stream.key_by(lambda n: n).connect(stream).process(CoKeyed())


# --- what shows when the whole program is there ------------------------------------------------------------


def test_a_program_without_operators() -> None:
    env = environment()
    env.from_sequence(1, 3)
    with pytest.raises(ProgramError, match="No operators defined in streaming topology"):
        env.execute()


def test_a_uid_that_belongs_to_two_operators_names_both() -> None:
    env = environment()
    stream = env.from_sequence(1, 3)
    stream.map(str).name("A").uid("same")
    stream.map(str).name("B").uid("same")
    with pytest.raises(ProgramError, match=rf"'same' belongs to two operators: 'A' \(at {__file__}:\d+\) and 'B'"):
        env.execute()


def test_uids_may_be_required() -> None:
    env = environment()
    env.get_config().disable_auto_generated_uids()
    env.from_sequence(1, 3).uid("numbers").map(str)
    with pytest.raises(ProgramError, match=r"'Map' .* has no uid"):
        env.execute()


def test_more_subtasks_than_key_groups() -> None:
    env = environment(parallelism=4).set_max_parallelism(2)
    env.from_sequence(1, 3).map(str)
    with pytest.raises(ProgramError, match="parallelism 4, more than its max parallelism 2"):
        env.execute()


def test_an_iteration_without_feedback() -> None:
    env = environment()
    env.from_sequence(1, 3).iterate().map(str)
    with pytest.raises(ProgramError, match="'IterationSource-2' has no feedback"):
        env.execute()


def test_batch_mode_needs_sources_that_end_and_no_iteration() -> None:
    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.add_source(DataGeneratorSource(str)).print()
    with pytest.raises(ProgramError, match="has a source that never ends"):
        env.execute()
    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    loop = env.from_sequence(1, 3).iterate()
    loop.close_with(loop.filter(bool))
    with pytest.raises(ProgramError, match="it iterates"):
        env.execute()


def test_a_keyed_operator_behind_a_stream_without_keys_is_found() -> None:
    from millrace.runtime.operators.process import KeyedProcessOperator

    env = environment()
    env.from_sequence(1, 3)._transform("Odd", KeyedProcessOperator(Keyed()))
    with pytest.raises(ProgramError, match=r"'Odd' .* keeps state for each key, but its input has no key"):
        env.execute()


# --- what is not there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda: numbers().cache(),
        lambda: numbers().set_uid_hash("0" * 32),
        lambda: environment().set_python_requirements("requirements.txt"),
        lambda: environment().add_python_archive("venv.zip"),
        lambda: environment().set_python_executable("python3"),
    ],
)
def test_what_is_not_there_says_so_and_what_to_do(use: Any) -> None:
    with pytest.raises(NotSupportedError) as caught:
        use()
    assert isinstance(caught.value, MillraceError)
    assert caught.value.action


@pytest.mark.parametrize("name", ["add_jars", "add_classpaths", "create_input"])
def test_a_method_that_needs_a_jvm_says_so(name: str) -> None:
    assert not hasattr(StreamExecutionEnvironment, name)
    with pytest.raises(AttributeError, match=f"StreamExecutionEnvironment.{name} needs a JVM"):
        getattr(environment(), name)


def test_another_unknown_attribute_is_just_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'add_jar'"):
        environment().add_jar  # noqa: B018
