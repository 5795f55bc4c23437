"""Speed, as ratios to a plain Python loop in the same run: `python -m benchmarks [name ...]`."""
