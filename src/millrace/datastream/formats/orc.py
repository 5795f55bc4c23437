"""ORC files."""

from __future__ import annotations

from typing import Any

from millrace.common.errors import NotSupportedError
from millrace.common.typeinfo import TypeInformation
from millrace.formats.columnar import OrcFileFormat, OrcWriterFactory
from millrace.formats.files import FileWriterFactory

__all__ = ["OrcBulkWriters", "OrcColumnarRowInputFormat"]

# Flink's names for what can be set, and pyarrow's.
_PROPERTIES = {
    "orc.compress": "compression",
    "orc.compress.size": "compression_block_size",
    "orc.stripe.size": "stripe_size",
    "orc.row.index.stride": "row_index_stride",
}


class OrcColumnarRowInputFormat(OrcFileFormat):
    """Reads ORC files as rows (or dataclasses) of a type; columns are found by name."""


class OrcBulkWriters:
    """Writes ORC files of records of a type."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation,
        writer_properties: dict[str, str] | None = None,
        hadoop_config: Any = None,  # noqa: ARG004 - PyFlink's
    ) -> FileWriterFactory:
        """A writer for each file; `row_type` is a TypeInformation."""
        options: dict[str, Any] = {}
        for name, value in (writer_properties or {}).items():
            if name not in _PROPERTIES:
                raise NotSupportedError(
                    f"the ORC property {name!r} cannot be set", action=f"Known are {', '.join(_PROPERTIES)}."
                )
            options[_PROPERTIES[name]] = value.lower() if name == "orc.compress" else int(value)
        if options.get("compression") == "none":
            options["compression"] = "uncompressed"
        return OrcWriterFactory(row_type, **options)
