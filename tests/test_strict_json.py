from __future__ import annotations

import pytest

from evenflow import strict_json


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '[{"b": {"a": 1, "a": 1}}]'])
def test_a_duplicate_key_is_refused_at_any_depth(text):
    with pytest.raises(ValueError, match="'a' stands twice"):
        strict_json.loads(text)


def test_the_same_key_in_two_objects_is_fine():
    assert strict_json.loads(b'[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]
