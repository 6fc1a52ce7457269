"""Data Processing Slice Load Balancing: slices of a keyed stream move between processing nodes."""
