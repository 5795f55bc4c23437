"""The errors of the state room.

MillraceError
└── StateError                       MR-4000  anything about state
    ├── StateDescriptorError         MR-4001  a state asked for twice, differently
    ├── StateCorruptedError          MR-4002  a file that is missing, damaged or cut short
    ├── StatePickleError             MR-4003  pickled state where pickle is not allowed
    ├── StateEncodingError           MR-4004  a value that its declared type cannot hold
    └── StateTypeError               MR-4005  state that was written as another type
"""

from __future__ import annotations

from millrace.common.errors import MillraceError


class StateError(MillraceError):
    """Something about state went wrong."""

    default_code = "MR-4000"


class StateDescriptorError(StateError):
    """A state was asked for under the name of a different one."""

    default_code = "MR-4001"


class StateCorruptedError(StateError):
    """A file of a checkpoint cannot be trusted. Nothing of it is used."""

    default_code = "MR-4002"

    def __init__(self, message: str = "", *, path: str = "") -> None:
        super().__init__(
            f"{path}: {message}" if path else message,
            action="Restore from an earlier checkpoint or savepoint; this file cannot be repaired.",
        )
        self.path = path


class StatePickleError(StateError):
    """State was pickled, and loading a pickle runs code from the file, which was not allowed."""

    default_code = "MR-4003"


class StateEncodingError(StateError):
    """A value does not fit the type that its state's descriptor declares."""

    default_code = "MR-4004"


class StateTypeError(StateError):
    """State was written as another kind or type than the program now declares."""

    default_code = "MR-4005"
