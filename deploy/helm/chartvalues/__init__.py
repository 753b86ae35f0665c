"""The chart's values: typed, described, the one source of values.yaml, values.schema.json and the README's table."""
