from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import millrace.common

ROOM = Path(millrace.common.__file__).parent

# pyflink.common.__all__ of PyFlink 2.3.
PYFLINK = """
AssignerWithPeriodicWatermarksWrapper ByteArraySchema CompletableFuture ConfigOption ConfigOptions Configuration
DeserializationSchema Duration Encoder ExecutionConfig InputDependencyConstraint Instant JobClient JobID
JobExecutionResult JobStatus RestartStrategies RestartStrategyConfiguration Row RowKind SerializationSchema
SimpleStringSchema Time TypeInformation TypeSerializer Types WatermarkStrategy
"""

# Where PyFlink keeps names that programs import from the module itself.
MODULES = {
    "completable_future": "CompletableFuture",
    "config_options": "ConfigOptions ConfigOption",
    "configuration": "Configuration",
    "execution_config": "ExecutionConfig",
    "input_dependency_constraint": "InputDependencyConstraint",
    "io": "InputFormat",
    "job_client": "JobClient",
    "job_execution_result": "JobExecutionResult",
    "job_id": "JobID",
    "job_status": "JobStatus",
    "metrics": "MetricGroup Metric Counter Meter Distribution",
    "restart_strategy": "RestartStrategyConfiguration RestartStrategies",
    "serialization": "SimpleStringSchema ByteArraySchema Encoder BulkWriterFactory RowFieldExtractorSchema",
    "serializer": "TypeSerializer",
    "time": "Duration Instant Time",
    "typeinfo": "TypeInformation Types RowTypeInfo TupleTypeInfo PickledBytesTypeInfo",
    "types": "RowKind Row",
    "watermark_strategy": "WatermarkStrategy TimestampAssigner AssignerWithPeriodicWatermarksWrapper",
}


def test_everything_of_pyflink_common_is_there():
    assert set(PYFLINK.split()) <= set(millrace.common.__all__)


def test_all_is_sorted_and_complete():
    names = millrace.common.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(millrace.common, name) for name in names)
    public = {
        name
        for name, thing in vars(millrace.common).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert public == set(names)


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_called_as_pyflinks(module):
    found = importlib.import_module(f"millrace.common.{module}")
    assert all(hasattr(found, name) for name in MODULES[module].split())


def test_the_room_imports_only_the_standard_library_msgspec_and_cloudpickle():
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                roots = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                depth = len(path.relative_to(ROOM).parts)
                assert node.level <= depth, path
                roots = [] if node.level else [(node.module or "").partition(".")[0]]
            else:
                continue
            assert all(root in sys.stdlib_module_names or root in {"msgspec", "cloudpickle"} for root in roots), path
