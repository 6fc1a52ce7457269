from __future__ import annotations

import pytest

from evenflow.spark.kills import drill


def check(found, kills):
    wrong = {
        name: found[name]
        for name in (
            "lost",
            "duplicated",
            "order_violations",
            "states_wrong",
            "owner_violations",
            "unfinished_sessions",
        )
    }
    assert not any(wrong.values()), found
    assert found["kills"] == kills
    assert found["moves"] >= 5 * kills, found
    return found


def test_a_killed_driver_loses_doubles_and_disorders_nothing():
    check(drill(kills=1, seed=1, batches=2), 1)


def test_a_driver_that_wakes_up_ends_and_the_one_that_took_over_goes_on():
    found = check(drill(kills=0, naps=1, seed=3, batches=2), 0)
    assert found["superseded"] == found["naps"] == 1


@pytest.mark.long
def test_many_naps():
    found = check(drill(kills=0, naps=8, seed=5, batches=2), 0)
    assert found["superseded"] == found["naps"] == 8


@pytest.mark.long
def test_many_kills():
    check(drill(kills=3, seed=1, batches=2), 3)
    # only many kills fall into sessions often enough for a share to mean something
    assert check(drill(kills=14, seed=2), 14)["kills_in_session"] * 2 >= 14
