# Needs Python 3.11+ and make; everything else is installed by the first target that wants it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# Spark binds to this address; a host name without an entry in the resolver would stop it.
export SPARK_LOCAL_IP := 127.0.0.1

.PHONY: help env java demo docs map results test tests test-long lint format lock clean

help:  ## these lines
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1	\2/p' Makefile | expand -t 18

env:  ## the environment in .venv/, from requirements.lock
	@tools/env.sh

java:
	@tools/env.sh java

demo: java  ## installs what is missing and shows the balancer at work
	@$(BIN)/evenflow demo

test: java  ## installs what is missing, checks the style and runs the tests
	@$(MAKE) --no-print-directory -j2 lint tests

tests:
	$(BIN)/python -m pytest -m "not long" --durations=15 -n 2 --dist loadscope --no-loadscope-reorder

test-long: java  ## the campaigns that make test leaves out, and the properties on fresh examples
	$(BIN)/python -m pytest -m long --durations=15
	$(BIN)/python -m pytest -m "not long" --hypothesis-profile=fresh tests/properties tests/subscriptions

docs: env  ## the documentation as a site in site/html, links checked
	$(BIN)/python tools/site.py

map: env  ## draws the packages and who imports whom: docs/map.svg
	$(BIN)/python tools/map.py

results: env  ## runs the commands of docs/results.md and writes it; LONG=1 for all of them
	$(BIN)/python tools/results.py $(if $(LONG),--long)

lint: env  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: env  ## rewrites the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## resolves requirements.lock anew (needs uv)
	uv pip compile -q --universal --fork-strategy fewest --python-version 3.11 --all-extras --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock

clean:  ## removes the environment and every cache
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis artifacts metastore_db spark-warehouse derby.log site .cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
