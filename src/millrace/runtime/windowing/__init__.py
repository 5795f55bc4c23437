"""Windows: what they are, how records are assigned to them, when they fire, and the operators that keep them."""
