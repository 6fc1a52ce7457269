"""Content-based matching on DataFrames, in batches and streams."""
