"""How records become what outside systems hold, driven by their types: JSON, CSV, Avro, Arrow."""
