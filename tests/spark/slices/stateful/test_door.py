"""Wrong use of the doors is refused at the call, and a changed state when the query starts."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkTypeError
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import evenflow
from evenflow.errors import BadInput
from evenflow.spark.slices.stateful.script import OUTPUT, SCHEMA, Script
from evenflow.spark.slices.writer import NOT_UP


@pytest.fixture
def stream(spark, tmp_path):
    (tmp_path / "in").mkdir()
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))


def test_wrong_arguments_are_refused_at_the_call(stream):
    divided = evenflow.balance(stream, by="k", slices=4, lanes=2)
    initial = stream.sparkSession.createDataFrame([("a", 1)], "k string, n int")
    for arguments, error, match in (
        ((5, OUTPUT, "append", "None"), PySparkTypeError, "StatefulProcessor"),
        ((Script(), OUTPUT, "append", "Sometimes"), IllegalArgumentException, "STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE"),
        ((Script(), OUTPUT, "some", "None"), IllegalArgumentException, r"STREAMING_OUTPUT_MODE\.INVALID"),
        ((Script(), OUTPUT, "complete", "None"), BadInput, "'append' or 'update'"),
        ((Script(), OUTPUT, "append", "None", initial), BadInput, "GroupedData"),
        ((Script(), OUTPUT, "append", "None", initial.groupBy("n")), BadInput, "the stream's keys"),
        ((Script(), OUTPUT, "append", "None", None, "at"), BadInput, "no further stateful operator"),
        ((Script(), "k strange", "append", "None"), Exception, "UNSUPPORTED_DATATYPE|PARSE"),
    ):
        for door in (divided.transformWithState, divided.transformWithStateInPandas):
            with pytest.raises(error, match=match):
                door(*arguments)
    with pytest.raises(AnalysisException, match="Watermark must be specified"):
        divided.applyInPandasWithState(print, OUTPUT, "n int", "append", "EventTimeTimeout")
    with pytest.raises(AssertionError, match="timeoutConf"):
        divided.applyInPandasWithState(print, OUTPUT, "n int", "append", "Never")
    nested = stream.selectExpr("struct(k) as k")
    with pytest.raises(BadInput, match="a column of type struct"):
        evenflow.balance(nested, by="k").transformWithState(Script(), OUTPUT, "append", "None")


def test_arguments_have_sparks_names_and_null_keys_are_groups(stream):
    divided = evenflow.balance(stream.withWatermark("at", "1 second"), by="k", slices=4, lanes=2)
    named = {"statefulProcessor": Script(), "outputStructType": OUTPUT, "outputMode": "Update", "timeMode": "eventTime"}
    made = divided.transformWithState(**named, initialState=None, eventTimeColumnName="")
    assert (made.balance.assign.nulls, made.clocked.mode, made.clocked.late) == (0, "EventTime", "at")
    kept = evenflow.balance(stream, by="k", slices=4, lanes=2, nulls="drop").transformWithState(**named)
    assert (kept.balance.assign.nulls, kept.clocked.late) == ("drop", None)


class Counts(StatefulProcessor):
    def __init__(self, schema):
        self.schema = schema

    def init(self, handle):
        self.n = handle.getValueState("n", self.schema)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        self.n.update((1,))
        yield Row(k=key[0], said="")


@pytest.mark.long
def test_a_changed_state_is_refused_by_spark_when_the_query_starts(stream, tmp_path):
    def run(schema, attempts=5):
        made = evenflow.balance(stream, by="k", slices=4, lanes=2)
        writer = made.transformWithState(Counts(schema), OUTPUT, "append", "None").writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "check")).start()
        try:
            query.processAllAvailable()
        except Exception as error:
            if NOT_UP not in str(error) or not attempts:
                raise
            run(schema, attempts - 1)  # a busy machine
        finally:
            query.stop()

    rows = stream.sparkSession.createDataFrame([("a", None, "", 0, 0)], SCHEMA)
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    run("n int")
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    with pytest.raises(Exception, match=r"STATE_STORE_VALUE_SCHEMA|SCHEMA.*(CHANGE|EVOLUTION|NOT_COMPATIBLE|INVALID)"):
        run("n string")
