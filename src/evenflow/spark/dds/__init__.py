"""DDS topics as Spark sources and sinks."""
