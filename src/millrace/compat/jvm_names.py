"""PyFlink's names that only make sense with Flink's JVM behind them, and what to use instead.

Names are written without ``pyflink.``; a name covers all that lies below it. The same names stand in
docs/differences-from-flink.md.
"""

__all__ = ["JVM_NAMES", "jvm_reason", "reason_missing"]

_CONNECTOR = "it wraps a connector's jar"
_WRAPPER = "it wraps a Java object"
_BACKEND = "it names a Java class; use one of Millrace's state backends"
_ENVIRONMENT = "datastream.stream_execution_environment.StreamExecutionEnvironment"
_STORAGE = "it names a Java class; use FileSystemCheckpointStorage"

JVM_NAMES: dict[str, str] = {
    "common.typeinfo.TypeInformation.get_java_type_info": _WRAPPER,
    "common.types.RowKind.to_j_row_kind": _WRAPPER,
    "common.utils": _WRAPPER,
    "datastream.CustomCheckpointStorage": _STORAGE,
    "datastream.CustomStateBackend": _BACKEND,
    "datastream.checkpoint_storage.CustomCheckpointStorage": _STORAGE,
    "datastream.connectors.base.StreamTransformer": _WRAPPER,
    "datastream.connectors.base.SupportsPreprocessing": _WRAPPER,
    "datastream.connectors.cassandra": _CONNECTOR,
    "datastream.connectors.dynamic_kafka": _CONNECTOR,
    "datastream.connectors.elasticsearch": _CONNECTOR,
    "datastream.connectors.kinesis": _CONNECTOR,
    "datastream.connectors.pulsar": _CONNECTOR,
    "datastream.connectors.rabbitmq": _CONNECTOR,
    "datastream.output_tag.OutputTag.get_java_output_tag": _WRAPPER,
    "datastream.slot_sharing_group.MemorySize.get_java_memory_size": _WRAPPER,
    "datastream.slot_sharing_group.SlotSharingGroup.get_java_slot_sharing_group": _WRAPPER,
    "datastream.state_backend.CustomStateBackend": _BACKEND,
    f"{_ENVIRONMENT}.add_classpaths": "there are no jars",
    f"{_ENVIRONMENT}.add_jars": "there are no jars",
    f"{_ENVIRONMENT}.create_input": "it takes a Java InputFormat",
    "datastream.utils.convert_to_python_obj": _WRAPPER,
    "datastream.utils.create_hadoop_configuration": _WRAPPER,
    "datastream.utils.create_java_properties": _WRAPPER,
    "datastream.utils.pickled_bytes_to_python_obj": _WRAPPER,
    "find_flink_home": "there is no Flink installation",
    "fn_execution": "it belongs to PyFlink's own worker",
    "java_gateway": "there is no gateway; look for what you need in Millrace's own API",
    "pyflink_gateway_server": "there is no gateway",
    "util.exceptions.JavaException": "no Java exception reaches the program",
    "util.exceptions.capture_java_exception": "no Java exception reaches the program",
    "util.exceptions.convert_py4j_exception": "no Java exception reaches the program",
    "util.exceptions.install_exception_handler": "no Java exception reaches the program",
    "util.exceptions.install_py4j_hooks": "no Java exception reaches the program",
    "util.java_utils": "there is no gateway",
}


def jvm_reason(name: str) -> str | None:
    """Why this PyFlink name (written without ``pyflink.``) needs the JVM; None where it does not.

    >>> jvm_reason("util.java_utils.to_jarray")
    'pyflink.util.java_utils.to_jarray needs the JVM, Millrace has none: there is no gateway.'
    >>> jvm_reason("datastream.DataStream") is None
    True
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        reason = JVM_NAMES.get(".".join(parts[:length]))
        if reason:
            return f"pyflink.{name} needs the JVM, Millrace has none: {reason}."
    return None


def reason_missing(name: str) -> str:
    """Why Millrace lacks this PyFlink name, in a sentence for the user."""
    return jvm_reason(name) or (
        f"pyflink.{name} is not in Millrace: it is not there yet, or PyFlink 2.3 does not have it either. "
        "Action: look it up in docs/differences-from-flink.md."
    )
