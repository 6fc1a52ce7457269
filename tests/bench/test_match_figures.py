from __future__ import annotations

from evenflow.bench.match_figures import LEAD, match_figures
from evenflow.web.report import write_report


def row(engine, rate, ratio, **more):
    about = {"workload": "stock", "subscriptions": 2000, "turns": 5, "pairs": 7, "checksum": 1, "baseline": "duckdb"}
    return {**about, "engine": engine, "events_per_cpu_s": rate, "ratio": ratio, **more}


def test_a_case_is_a_figure_from_the_slowest_to_the_fastest(tmp_path):
    rows = [row("duckdb", 100.0, 1.0), row("evenflow", 900.0, 9.0), row("polars", 80.0, 0.8)]
    rows.append(row("duckdb", 5.0, 1.0, workload="flat"))
    costs = {"build_s": 0.5, "index_mb": 13.0, "added": 80, "add_us": 0.4, "covering_s": None, "covering_size": None}
    index = [{"workload": "stock", "subscriptions": 2000, **costs}]
    stock, flat, costs_table, table = match_figures({"bench": "match", "rows": rows, "index": index})
    assert costs_table.rows == [["stock", 2000, 0.5, 13.0, 80, 0.4, None, None]]
    assert stock.title == "stock, 2,000 subscriptions"
    assert list(stock.series[0].x) == ["polars", "duckdb", "evenflow"]
    assert stock.caption == "The fastest, evenflow, is 9 times duckdb."
    assert (len(flat.series[0].x), len(table.rows)) == (1, 4)
    page = write_report(tmp_path, "bench match", LEAD, [stock, flat, costs_table, table]).read_text()
    assert page.count("data-root-id") == 2
    assert "No published figures exist" in page
