"""`make bench`: every workload, or those that are named."""

from __future__ import annotations

import sys

from benchmarks import (
    checkpointing,
    interval_join,
    keyed_sum,
    latency,
    recovery,
    startup,
    state,
    stateless_chain,
    windows,
)

WORKLOADS = {
    "keyed_sum": keyed_sum.run,
    "checkpointing": checkpointing.run,
    "recovery": recovery.run,
    "stateless_chain": stateless_chain.run,
    "interval_join": interval_join.run,
    "tumbling_windows": windows.run_tumbling,
    "window_sums": windows.run_sums,
    "sliding_windows": windows.run_sliding,
    "session_windows": windows.run_sessions,
    "latency": latency.run,
    "startup": startup.run,
    "state": state.run,
}


def main(names: list[str]) -> None:
    """Run workloads and print a line for each."""
    for name in names or WORKLOADS:
        print(WORKLOADS[name](), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
