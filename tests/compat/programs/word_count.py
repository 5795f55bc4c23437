"""A word count as PyFlink's documentation writes it: only the imports tell which library it is for."""

import argparse
import logging
import sys

from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

WORDS = ["To be, or not to be,--that is the question:--", "Whether 'tis nobler in the mind to suffer"]


def word_count(input_path, output_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    # Write all the data to one file.
    env.set_parallelism(1)

    if input_path is not None:
        ds = env.read_text_file(input_path)
    else:
        print("Executing word_count example with default input data set.")
        print("Use --input to specify file input.")
        ds = env.from_collection(WORDS)

    def split(line):
        yield from line.split()

    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
    )

    if output_path is not None:
        ds.write_as_text(output_path)
    else:
        print("Printing result to stdout. Use --output to specify output path.")
        ds.print()

    env.execute()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", dest="input", required=False, help="Input file to process.")
    parser.add_argument("--output", dest="output", required=False, help="Output file to write results to.")
    argv = sys.argv[1:]
    known_args, _ = parser.parse_known_args(argv)
    word_count(known_args.input, known_args.output)
    assert Encoder.simple_string_encoder() is not None
    assert WatermarkStrategy.no_watermarks() is not None
