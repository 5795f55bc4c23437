"""Sorts the lines of a web server's log into several streams: one operator, several outputs.

Lines that cannot be read do not fail the job: `on_error` sends them aside together with the error. It prints

    slow> /report took 2300 ms
    slow> /search took 1800 ms
    broken> 'GET /cart 20x 35' (ValueError: invalid literal for int() with base 10: '20x')
    broken> 'what is this?' (ValueError: not enough values to unpack (expected 4, got 3))
    failed> /login answered 503
    fine> /home
    fine> /help

where the lines of each stream keep their order, but the streams may take turns.
"""

from typing import NamedTuple

from millrace.common import Types
from millrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LOG = [
    "GET /home 200 12",
    "GET /report 200 2300",
    "GET /cart 20x 35",
    "POST /login 503 80",
    "what is this?",
    "GET /search 200 1800",
    "GET /help 200 9",
]

SLOW = OutputTag("slow", Types.STRING())
FAILED = OutputTag("failed", Types.STRING())
BROKEN = OutputTag("broken")

SLOW_MS = 1000
SERVER_ERROR = 500


class Request(NamedTuple):
    path: str
    status: int
    millis: int


def parse(line: str) -> Request:
    """Read a line; one that is malformed raises an error."""
    _, path, status, millis = line.split()
    return Request(path, int(status), int(millis))


class Sort(ProcessFunction):
    """The main output has the requests that nothing is to be said about."""

    def process_element(self, request: Request, ctx: ProcessFunction.Context):
        if request.status >= SERVER_ERROR:
            yield FAILED, f"{request.path} answered {request.status}"
        elif request.millis >= SLOW_MS:
            yield SLOW, f"{request.path} took {request.millis} ms"
        else:
            yield request.path


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    requests = env.from_collection(LOG, Types.STRING()).map(parse).name("Parse").on_error(BROKEN)
    fine = requests.process(Sort()).name("Sort")

    fine.print("fine")
    fine.get_side_output(SLOW).print("slow")
    fine.get_side_output(FAILED).print("failed")
    requests.get_side_output(BROKEN).map(lambda bad: f"{bad.value!r} ({bad.error})").print("broken")
    env.execute("log")


if __name__ == "__main__":
    main()
