from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import get_type_hints

import pytest

from evenflow.errors import BadInput
from evenflow.experiments import registry
from evenflow.experiments.settings import describe_type, parse_settings, settings_help


def test_every_experiment_keeps_the_contract():
    found = registry.experiments()
    names = [experiment.name for experiment in found]
    assert len(set(names)) == len(names)
    for experiment in found:
        assert registry.find(experiment.name) is experiment
        assert experiment.name.partition("-")[0] in registry.FAMILIES
        assert experiment.summary.endswith(".")
        assert "\n" not in experiment.summary
        assert dataclasses.is_dataclass(experiment.settings)
        assert experiment.settings.__dataclass_params__.frozen
        defaults = experiment.settings()  # every setting has a default
        assert pickle.loads(pickle.dumps(defaults)) == defaults
        assert pickle.loads(pickle.dumps(experiment.run)) is experiment.run  # worker processes find it by name
        assert list(inspect.signature(experiment.run).parameters)[:3] == ["settings", "seed", "trace"]
        assert set(experiment.options) <= {f.name for f in dataclasses.fields(experiment.settings)}
        for kind in get_type_hints(experiment.settings).values():
            assert describe_type(kind)


@pytest.mark.usefixtures("toys")
def test_names_are_found_and_unknown_ones_refused():
    assert registry.find("toy-double").name == "toy-double"
    for name in ("toy-dbl", "other", "", "toy"):
        with pytest.raises(BadInput, match="unknown experiment"):
            registry.find(name)


@pytest.mark.usefixtures("toys")
def test_defaults_survive_being_written_and_read():
    settings = registry.find("toy-double").settings
    words = [f"{s.name}={s.default}" for s in settings_help(settings)]
    assert parse_settings(settings, words) == settings()
