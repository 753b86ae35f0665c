# Two commands do all on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.PHONY: install demo demo-quick test unit integration engine stack image image-engine check fmt lint types imports proto proto-check bench clean chart schema cluster cluster-build

install: $(STAMP)  ## everything, into .venv

$(STAMP): pyproject.toml deploy/constraints.txt
	@command -v uv >/dev/null || $(PYTHON) -m pip install -q uv
	test -x $(BIN)/python || uv venv -q --python $(PYTHON) $(VENV)
	uv pip install -q --python $(BIN)/python -c deploy/constraints.txt -e '.[dev]'
	@touch $@

demo: install  ## the main job, with a report (12 to 13 minutes)
	$(BIN)/tlt demo

demo-quick: install  ## a smoke run of under 4 minutes
	$(BIN)/tlt demo --quick

test: check unit integration engine lossless  ## all tests but those that start the whole suite

unit: install
	$(BIN)/pytest tests/unit tests/wire tests/contract tests/image tests/test_house.py -m "not image"

integration: install
	$(BIN)/pytest tests/integration -m "not stack"

engine: install  ## the real SGLang engine
	$(BIN)/pytest tests/engine

.PHONY: lossless test-lossless
lossless: install  ## that speculation changes nothing, in short
	$(BIN)/pytest tests/lossless

SIZE ?= long
test-lossless: install  ## the same at full size, or SIZE=middle, with a table of all cases
	$(BIN)/pytest tests/lossless --size $(SIZE)

stack: install  ## the whole suite, started, killed and restarted
	$(BIN)/pytest tests/integration -m stack

cluster: install cluster-build  ## a real Kubernetes cluster (built from source once: 13 minutes on 2 cores)
	$(BIN)/pytest tests/cluster

cluster-build:
	tests/cluster/kube/build.sh

.PHONY: cluster-kuberay
cluster-kuberay: install cluster-build  ## the same with a real operator: KUBERAY_OPERATOR=binary KUBERAY_CRDS=folder
	@test -x "$$KUBERAY_OPERATOR" && test -d "$$KUBERAY_CRDS" || { echo "set KUBERAY_OPERATOR and KUBERAY_CRDS"; exit 2; }
	$(BIN)/pytest tests/cluster

image: install  ## the image of all services but workers, looked at and run (root, buildah, mmdebstrap, runc)
	deploy/image/build slim
	$(BIN)/pytest tests/image -m image

image-engine:  ## the image of workers, 10 GB
	deploy/image/build engine

.PHONY: dashboards dashboards-check
dashboards: install  ## Grafana dashboards from services/tlt_lab/grafana into the chart
	$(BIN)/python -m tlt_lab.grafana.write deploy/helm/tlt/dashboards

dashboards-check: install
	$(BIN)/python -m tlt_lab.grafana.write deploy/helm/tlt/dashboards --check

.PHONY: alerts observability dashboard-pictures
alerts: install  ## all alert rules in dist/alerts.yaml, checked and tested by promtool
	$(BIN)/pytest tests/chart/test_alerts.py
	$(BIN)/python -m tests.chart.rules deploy/helm/tlt/alerts dist

observability: install  ## every panel's query, asked of a Prometheus that scrapes the running suite (4 minutes)
	$(BIN)/pytest tests/integration/observability -m stack

dashboard-pictures: install  ## the same with pictures of the dashboards in reports/dashboards (7 minutes)
	TLT_PICTURES=reports/dashboards $(BIN)/pytest -p no:randomly tests/integration/observability -m stack

check: lint types imports proto-check

fmt: install
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: install
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/buf lint proto && $(BIN)/hadolint Dockerfile

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/lint-imports

proto: install  ## stubs from proto/, in an environment of their own
	uv run -q --no-project --python $(PYTHON) --with grpcio-tools==1.81.1 --with mypy-protobuf==5.1.0 python proto/generate.py

proto-check: proto
	git diff --exit-code --stat -- tlt_common/_generated

chart: install  ## the Helm chart; needs the binaries of tests/cluster/kube/build.sh
	$(BIN)/python deploy/helm/generate.py --check
	$(BIN)/pytest tests/chart

schema: install  ## values.yaml, values.schema.json and the README's table, from deploy/helm/chartvalues
	$(BIN)/python deploy/helm/generate.py

bench: install
	$(BIN)/tlt bench rollout --json -

clean:
	rm -rf $(VENV) dist reports .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
