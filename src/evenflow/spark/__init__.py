"""The live driver: the data flows through Spark, and a node is a lane."""
