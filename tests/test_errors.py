from __future__ import annotations

import pickle

from evenflow.errors import BadInput, nearest


def test_it_survives_the_way_back_from_a_worker():
    error = BadInput("-1", "a number of at least 0", "units[3].load")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "units[3].load: given -1, allowed is a number of at least 0."
    assert (again.given, again.allowed, again.where) == ("-1", "a number of at least 0", "units[3].load")


def test_a_message_is_always_one_line():
    assert "\n" not in str(BadInput("'a\nb'", "one\nline.", "f.json"))
    assert str(BadInput("x", "y.", "z")).endswith("y.")


def test_nearest_is_the_same_whatever_the_order():
    names = ["slices-join", "slices-drain", "slices-drift"]
    assert nearest("slices-drian", names) == nearest("slices-drian", reversed(names))
    assert nearest("slices-drian", names).startswith("'slices-drain'")
    assert nearest("zzz", names) == "one of 'slices-drain', 'slices-drift', 'slices-join'"
    assert nearest("zzz", []) == "none"
