"""Nexmark: an auction house as a stream of new people, new auctions and bids, and nine questions about it."""
