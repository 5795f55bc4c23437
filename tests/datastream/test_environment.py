"""Settings, and what an executor is given."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.common import Configuration, Duration, ProgramError, Row, Types
from millrace.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    OutputTag,
    RuntimeExecutionMode,
    SourceFunction,
    StreamExecutionEnvironment,
)
from millrace.datastream.connectors import DataGeneratorSource
from millrace.datastream.functions import ErrorPolicy
from tests.datastream.fakes import FakeExecutor, InterruptedJob, environment


def test_the_parallelism_is_that_of_the_cpus_unless_it_is_set() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == env.get_default_local_parallelism() >= 1
    assert env.set_parallelism(3).get_parallelism() == 3
    assert env.get_max_parallelism() == -1


def test_an_operator_takes_the_parallelism_of_the_moment_in_which_it_is_added() -> None:
    env = environment(2)
    stream = env.from_sequence(1, 3)
    env.set_parallelism(5)
    stream.map(str).set_max_parallelism(64)
    env.set_max_parallelism(256)
    stream.map(str).set_parallelism(1)
    nodes = env.get_stream_graph().nodes.values()
    assert [(node.parallelism, node.max_parallelism) for node in nodes] == [(2, 256), (5, 64), (1, 256)]


def test_a_configuration_sets_what_it_names() -> None:
    configuration = Configuration.from_dict(
        {
            "parallelism.default": "3",
            "pipeline.max-parallelism": "64",
            "execution.runtime-mode": "BATCH",
            "execution.buffer-timeout": "5 ms",
            "pipeline.operator-chaining": "false",
            "pipeline.name": "nightly",
            "pipeline.object-reuse": "true",
            "pipeline.global-job-parameters": "day:monday,limit:3",
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "state.savepoints.dir": "/savepoints",
            "spark.master": "local[2]",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 64)
    assert env.get_buffer_timeout() == 5
    assert not env.is_chaining_enabled()
    assert env.get_config().is_object_reuse_enabled()
    assert env.get_config().get_global_job_parameters() == {"day": "monday", "limit": "3"}
    assert env.get_checkpoint_interval() == 10_000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.get_default_savepoint_directory() == "/savepoints"
    env.from_sequence(1, 2).map(str)
    graph = env.get_stream_graph(clear=False)
    options = env._job_options(graph)
    assert (options.job_name, options.batch_mode, options.max_parallelism) == ("nightly", True, 64)
    assert options.configuration["spark.master"] == "local[2]"


def test_a_configuration_is_checked_as_the_setters_check() -> None:
    with pytest.raises(ProgramError):
        environment().configure(Configuration.from_dict({"parallelism.default": "-2"}))


def test_the_checkpoint_settings_are_kept() -> None:
    env = environment().enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
    config = env.get_checkpoint_config()
    config.set_checkpoint_timeout(Duration.of_seconds(30)).set_min_pause_between_checkpoints(500)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    config.enable_unaligned_checkpoints()
    assert config.is_checkpointing_enabled()
    assert (config.get_checkpoint_timeout(), config.get_min_pause_between_checkpoints()) == (30_000, 500)
    assert config.is_externalized_checkpoints_enabled()
    assert env.is_unaligned_checkpoints_enabled()
    with pytest.raises(ProgramError, match="at least 10, got 5"):
        env.enable_checkpointing(5)


# --- what a job is given -------------------------------------------------------------------------------------


def test_a_job_is_given_what_its_functions_may_ask_for() -> None:
    executor = FakeExecutor()
    env = environment(executor=executor)
    env.get_config().set_global_job_parameters({"limit": 3})
    env.register_cached_file("/data/model.bin", "model")
    env.register_broadcast_variable("rates", {"EUR": 1.0})
    env.add_python_file("/code/helpers.py")
    env.add_python_file("/code/package.zip")
    env.from_sequence(1, 3).map(str).print("out")
    env.execute("nightly")
    options = executor.options
    assert (options.job_name, executor.graph.name) == ("nightly", "nightly")
    assert options.parameters == {"limit": "3"}
    assert options.cached_files == {"model": "/data/model.bin"}
    assert options.broadcast_variables == {"rates": {"EUR": 1.0}}
    assert options.python_path == (str(Path("/code")), "/code/package.zip")
    assert options.print_sinks == {3: "out"}
    assert not options.batch_mode


@pytest.mark.parametrize(
    ("mode", "bounded", "batch"),
    [
        (RuntimeExecutionMode.STREAMING, True, False),
        (RuntimeExecutionMode.AUTOMATIC, True, True),
        (RuntimeExecutionMode.AUTOMATIC, False, False),
        (RuntimeExecutionMode.BATCH, True, True),
    ],
)
def test_the_mode_is_batch_where_it_may_be(mode: RuntimeExecutionMode, bounded: bool, batch: bool) -> None:
    executor = FakeExecutor()
    env = environment(executor=executor).set_runtime_mode(mode)
    env.add_source(DataGeneratorSource(str, 3 if bounded else None)).print()
    env.execute()
    assert executor.options.batch_mode is batch
    assert executor.graph.nodes[1].bounded is bounded


def test_an_iterating_program_streams_even_if_its_sources_end() -> None:
    executor = FakeExecutor()
    env = environment(executor=executor).set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    loop = env.from_sequence(1, 3).iterate()
    loop.close_with(loop.filter(bool))
    env.execute()
    assert not executor.options.batch_mode


def test_execute_runs_what_is_new_and_what_feeds_it() -> None:
    executor = FakeExecutor()
    env = environment(executor=executor)
    stream = env.from_sequence(1, 3).map(str)
    env.execute()
    assert sorted(executor.graph.nodes) == [1, 2]
    stream.print("later")
    env.execute()
    assert sorted(executor.graph.nodes) == [1, 2, 3]
    with pytest.raises(ProgramError, match="No operators"):
        env.execute()


def test_a_job_keeps_its_graph_when_the_program_goes_on() -> None:
    executor = FakeExecutor()
    env = environment(executor=executor)
    stream = env.from_sequence(1, 3).map(str)
    env.execute()
    stream.name("renamed")
    assert executor.graph.nodes[2].name == "Map"


def test_a_plan_can_be_looked_at_before_it_is_executed() -> None:
    env = environment()
    env.from_sequence(1, 3).map(str)
    assert len(json.loads(env.get_execution_plan())["nodes"]) == 2
    env.execute()


def test_execute_async_gives_the_client_and_does_not_wait() -> None:
    executor = FakeExecutor(endless=True)
    env = environment(executor=executor)
    env.from_sequence(1, 3).map(str)
    client = env.execute_async("forever")
    assert executor.options.job_name == "forever"
    assert not client.get_job_execution_result().done()


def test_an_environment_closes_its_executor_once() -> None:
    executor = FakeExecutor()
    with environment(executor=executor) as env:
        env.close()
    assert executor.closed == 1


def test_ctrl_c_cancels_the_job_and_is_still_an_interrupt() -> None:
    executor = FakeExecutor(endless=True)
    executor.submit = lambda graph, options: executor.jobs.append(InterruptedJob([], True)) or executor.jobs[-1]  # type: ignore[assignment, func-returns-value, return-value]
    env = environment(executor=executor)
    env.from_sequence(1, 3).map(str)
    with pytest.raises(KeyboardInterrupt) as caught:
        env.execute()
    assert isinstance(caught.value, SystemExit)
    assert caught.value.code == 130
    assert executor.jobs[-1].cancelled == 1


# --- collecting ----------------------------------------------------------------------------------------------


def test_collecting_gives_an_iterator_that_ends_with_the_job() -> None:
    executor = FakeExecutor([1, 2])
    with environment(executor=executor).from_sequence(1, 2).execute_and_collect("look") as results:
        assert results.next() == 1
        assert list(results) == [2]
    assert executor.options.job_name == "look"
    assert executor.options.print_sinks == {}
    assert executor.jobs[-1].cancelled == 0


def test_closing_the_iterator_ends_a_job_that_still_runs() -> None:
    executor = FakeExecutor([1, 2], endless=True)
    results = environment(executor=executor).from_sequence(1, 2).execute_and_collect()
    assert next(results) == 1
    results.close()
    results.close()
    assert executor.jobs[-1].cancelled == 1
    assert list(results) == []


def test_collecting_with_a_limit_gives_a_list_and_ends_the_job() -> None:
    executor = FakeExecutor([1, 2, 3], endless=True)
    assert environment(executor=executor).from_sequence(1, 3).execute_and_collect(limit=2) == [1, 2]
    assert executor.jobs[-1].cancelled == 1


def test_two_streams_can_be_collected_from_one_job() -> None:
    executor = FakeExecutor([1])
    env = environment(executor=executor)
    numbers = env.from_sequence(1, 3)
    one, two = numbers.collect_async(), numbers.map(str).collect_async()
    client = env.execute_async()
    assert [list(one.results(client)), list(two.results(client))] == [[1], [1]]


# --- sources -------------------------------------------------------------------------------------------------


def test_a_collection_takes_its_type_at_once() -> None:
    env = environment()
    stream = env.from_collection([("a", 1)], Types.ROW_NAMED(["name", "size"], [Types.STRING(), Types.INT()]))
    stream.print()
    source: Any = env.get_stream_graph().nodes[1]
    assert source.operator.source._values == [Row("name", "size")("a", 1)]
    assert source.output_type is None  # It has been applied.
    assert source.parallelism == 1


def test_elements_can_be_written_out() -> None:
    env = environment()
    env.from_elements(1, 2, type_info=Types.DOUBLE()).print()
    assert env.get_stream_graph().nodes[1].operator.source._values == [1.0, 2.0]


class FakeType:
    def __init__(self, name: str, **parts: Any) -> None:
        self._name = name
        vars(self).update(parts)

    def simpleString(self) -> str:
        return self._name


def column(name: str, kind: FakeType) -> Any:
    return SimpleNamespace(name=name, dataType=kind)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_data_frame_is_a_source_of_rows_with_its_columns(streaming: bool) -> None:
    fields = [
        column("id", FakeType("bigint")),
        column("price", FakeType("decimal(10,2)")),
        column("tags", FakeType("array<string>", elementType=FakeType("string"))),
        column("sizes", FakeType("map<..>", keyType=FakeType("string"), valueType=FakeType("int"))),
        column("raw", FakeType("binary")),
        column("odd", FakeType("variant")),
    ]
    frame = SimpleNamespace(schema=SimpleNamespace(fields=fields), isStreaming=streaming)
    executor = FakeExecutor()
    env = environment(executor=executor)
    stream = env.from_data_frame(frame)
    stream.print()
    env.execute()
    assert stream.get_type() == Types.ROW_NAMED(
        ["id", "price", "tags", "sizes", "raw", "odd"],
        [
            Types.LONG(),
            Types.BIG_DEC(),
            Types.LIST(Types.STRING()),
            Types.MAP(Types.STRING(), Types.INT()),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.PICKLED_BYTE_ARRAY(),
        ],
    )
    assert executor.options.data_frames == {1: frame}
    assert executor.graph.nodes[1].bounded is not streaming
    assert executor.graph.nodes[1].operator.source is None


def test_a_socket_is_read_by_spark_once_there_is_a_session() -> None:
    executor = FakeExecutor()
    env = environment(executor=executor)
    stream = env.socket_text_stream("localhost", 9999)
    stream.print()
    env.execute()
    assert stream.get_type() == Types.STRING()
    make = executor.options.data_frames[1]
    assert (make.host, make.port) == ("localhost", 9999)
    assert not executor.graph.nodes[1].bounded
    assert not executor.options.batch_mode


def test_a_source_function_is_read_in_chunks_with_its_timestamps() -> None:
    class Yields(SourceFunction):
        def run(self, ctx: Any) -> Any:
            yield from range(5000)

    class Collects(SourceFunction):
        def run(self, ctx: Any) -> None:
            ctx.collect_with_timestamp("a", 7)
            ctx.collect("b")

    def read(function: SourceFunction) -> list[Any]:
        env = environment()
        env.add_source(function).print()
        source = env.get_stream_graph().nodes[1].operator.source
        [split] = source.plan(source.initial_offset(), source.latest_offset({}, 0), 1)[0]
        return list(source.read(split))

    chunks = read(Yields())
    assert [(chunk.seq, len(chunk.values), chunk.timestamps) for chunk in chunks] == [(0, 4096, None), (1, 904, None)]
    assert [(chunk.values, chunk.timestamps) for chunk in read(Collects())] == [(["a", "b"], [7, -(2**63)])]


# --- operators -------------------------------------------------------------------------------------------------


def test_what_becomes_of_bad_records_is_set_for_each_operator() -> None:
    env = environment()
    bad = OutputTag("bad")
    stream = env.from_sequence(1, 3)
    stream.map(str)
    stream.map(str).on_error("skip")
    stream.map(str).on_error(bad).on_error("fail")
    stream.map(str).on_error(ErrorPolicy.side_output(bad))
    stream.add_sink(print).on_error(bad).get_side_output(bad).print()
    policies = [node.operator.policy for node in env.get_stream_graph().nodes.values()]
    assert [policy.action for policy in policies] == [
        "fail", "fail", "skip", "fail", "side_output", "side_output", "fail",
    ]  # fmt: skip


def test_settings_are_chained_on_sinks_and_streams_alike() -> None:
    env = environment()
    stream = env.from_sequence(1, 3).map(str)
    stream.name("Text").uid("text").set_description("as text").set_parallelism(4).set_buffer_timeout(5)
    stream.print().name("Out").uid("out").set_parallelism(1).disable_chaining().set_description("to see")
    _, text, out = env.get_stream_graph().nodes.values()
    assert (text.name, text.state_id, text.description, text.parallelism) == ("Text", "text", "as text", 4)
    assert (text.buffer_timeout, text.parallelism_set) == (5, True)
    assert (out.name, out.state_id, out.parallelism) == ("Sink: Out", "out", 1)


def test_a_stream_that_is_forced_into_one_subtask_stays_there() -> None:
    stream = environment().from_sequence(1, 3).map(str).force_non_parallel()
    with pytest.raises(ProgramError, match="at most 1"):
        stream.set_parallelism(2)
