"""The live driver: the data flows through Spark, a node is a lane. Only this package imports pyspark."""
