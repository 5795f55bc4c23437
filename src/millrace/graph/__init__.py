"""The program as a graph: nodes and edges, chains, levels, slots. Pure data."""
