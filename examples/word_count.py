"""Counts words, as every such library does first.

Run it with `python examples/word_count.py [file]`. Without a file it reads a verse, and prints

    the     7
    that    6
    built   5
    house   5
    is      3
"""

import sys

from millrace.common import Types
from millrace.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment

VERSE = """\
This is the house that Jack built.
This is the malt that lay in the house that Jack built.
This is the rat that ate the malt that lay in the house that Jack built.
House by house, he built and built the rest.
"""


def words(line: str):
    """The words of a line, in lower case and without what stands around them."""
    for word in line.lower().split():
        yield word.strip(".,;:!?")


def add(left, right):
    """Two counts of the same word."""
    return left[0], left[1] + right[1]


def lines_of(env: StreamExecutionEnvironment) -> DataStream:
    """The lines of the file that was named, or those of the verse."""
    if len(sys.argv) > 1:
        return env.read_text_file(sys.argv[1])
    return env.from_collection(VERSE.splitlines(), Types.STRING())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    # The input ends, so only the last count of each word is of interest. In STREAMING mode, the default, `reduce`
    # would send on a new count with every word.
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)

    counts = (
        lines_of(env)
        .flat_map(words, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(add)
    )

    with counts.execute_and_collect("word count") as results:
        most = sorted(results, key=lambda pair: (-pair[1], pair[0]))
    for word, count in most[:5]:
        print(f"{word:<7} {count}")


if __name__ == "__main__":
    main()
