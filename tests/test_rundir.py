from __future__ import annotations

import json

import pytest

from evenflow.errors import BadInput
from evenflow.rundir import MADE_BY, RUN, TRACE, claim_run_directory, is_report, write_run


def test_a_run_directory_is_created_and_used_again(tmp_path):
    path = tmp_path / "deep" / "run"
    claim_run_directory(path)
    write_run(path, {"experiment": "x"})
    (path / TRACE).write_text("old\n")
    claim_run_directory(path)
    assert (path / TRACE).read_text() == ""
    run = json.loads((path / RUN).read_text())
    assert run["experiment"] == "x"
    assert {"python", "numpy"} <= set(run["versions"])


def test_other_data_is_never_overwritten(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("mine")
    for path in (file, tmp_path):
        with pytest.raises(BadInput, match="--run"):
            claim_run_directory(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


def test_a_report_is_told_from_another_page(tmp_path):
    page = tmp_path / "index.html"
    page.write_text(f"<html><head>{MADE_BY}</head></html>")
    assert is_report(page)
    page.write_text("<html></html>")
    assert not is_report(page)
