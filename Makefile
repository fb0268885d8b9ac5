# Everything that people and CI call. `make help` lists it.
#
# T=<substring>  only the tests of the suite whose names contain it     make test T=freeze
# VERSIONS=<majors>  only these of `make matrix`                        make matrix VERSIONS=17 T=freeze
# BENCH=<names>  these sections of the benchmark, in place of tests      make matrix VERSIONS=17 BENCH=ceiling
# SEED=<number>  repeats a randomised test                              make test T=order SEED=42
# SEEDS=<count>  runs of `make soak`, in LANES=<count> (default 2) lanes   make soak SEEDS=200
#                and of `make simulate`                               make simulate SEEDS=100000
# FAULTS=1       `make simulate` lists the deliberate faults and the seeds that find them
# SMALL="…"      `make simulate` searches a small world to its end, with these mishaps     make simulate SMALL="crash cut replay"
# ONLY=<names>   only these sections of the benchmark                  make bench ONLY="latency emit"
#                or these troubles of the night                        make night ONLY="outage slot"
#                kafka fetches Debezium Server to measure beside (780 MB; Java 21); kafka and publisher compile librdkafka
# CASE=<parts>   only cases of the benchmark whose names contain one of these parts, with | between
# AGAINST=<file> another build of outbox-relay, which the benchmark measures in turns with this one
# RUNS=<count>   runs of each figure of the benchmark (default 3); QUICK=1 makes one short run of everything
# RELAY="…"      other settings of the relay in the benchmark                    make bench RELAY="in-flight=500"
# KEEP=1         `make demo` leaves its servers up until Ctrl-C
# SINK=kafka     `make demo` has Kafka in place of RabbitMQ; Java and Maven are installed by apt if they are missing
# DIRECT_WRITES=0 the extension without writing past the executor      make test DIRECT_WRITES=0 T=extension::
# KAFKA_VERSION=… the Kafka that the tests run                           make test KAFKA_VERSION=3.9.2 T=kafka::
# PG_CONFIG=…    the PostgreSQL to build for and to run (a copy of it)  make test PG_CONFIG=/usr/lib/postgresql/17/bin/pg_config

.PHONY: help demo picture night programs relay-otel test assert upgrade migrate packages try-packages images try-images try-chart release matrix soak simulate bench lint site servers build extension setup all install uninstall sql clean
.DEFAULT_GOAL := help

CARGO_TARGET_DIR ?= target
override CARGO_TARGET_DIR := $(if $(filter /%,$(CARGO_TARGET_DIR)),$(CARGO_TARGET_DIR),$(CURDIR)/$(CARGO_TARGET_DIR))
export CARGO_TARGET_DIR

# With two tests at once on two processors, both are idle a quarter of the time: three at once.
ifndef RUST_TEST_THREADS
export RUST_TEST_THREADS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
endif

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: build extension ## real events on private servers, from emit to consumer, step by step
	@case "$(SINK)" in kafka) scripts/setup kafka ;; esac
	@KEEP=$(KEEP) SINK=$(SINK) "$(CARGO_TARGET_DIR)/debug/outbox-demo"

picture: build extension ## the demo, recorded into docs/images/demo.svg
	@"$(CARGO_TARGET_DIR)/debug/outbox-record" docs/images/demo.svg 2456 "$(CARGO_TARGET_DIR)/debug/outbox-demo"

night: build extension ## a night on call: four troubles, each from the alert to its end; 20 minutes
	@scripts/setup night
	@PATH="$(CARGO_TARGET_DIR)/debug:$(CARGO_TARGET_DIR)/tools/bin:$$PATH" outbox-night $(ONLY)

test: relay-otel extension ## all tests, on private servers
	@rm -rf "$(CARGO_TARGET_DIR)/tmp/not-run"
	CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test $(LOCKED) -p outbox-simulator -- $(T)
	cargo test $(LOCKED) --features outbox-relay/otel --lib -- $(or $(T),collector:: traces::)
	cargo test $(LOCKED) --no-fail-fast -- $(T) || { status=$$?; scripts/not-run; exit $$status; }
	@scripts/not-run

assert: programs ## the extension's tests on a PostgreSQL with assertions (built in some minutes, once) and with Rust's own
	PG_CONFIG=$$(scripts/postgres-with-assertions) && export PG_CONFIG && copy=$$(scripts/private-postgres) && \
	CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/assert CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
	CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_LTO=off scripts/install-extension "$$copy" && \
	cargo test $(LOCKED) --test suite -- $(or $(T),extension::)

upgrade: programs extension ## the tests of the upgrade from earlier versions, with their relays, which are built from the history
	scripts/earlier-relay 0.1.0
	scripts/earlier-relay 0.2.0
	EARLIER_RELAYS="$(CARGO_TARGET_DIR)/earlier" cargo test $(LOCKED) --test suite -- relay::upgrade extension::upgrade

migrate: programs extension ## the tests of docs/migrate.md, one of them with a real Debezium Server (Java 21; 780 MB are fetched)
	@debezium=$$(scripts/debezium) && eval "$$debezium" && \
	cargo test $(LOCKED) --test suite -- migrate::

packages: ## Debian packages into target/packages; DEBIAN="trixie sid" for other suites, in folders (as root); VERSION=0.1.0 of an earlier version
	@REVISION="$(REVISION)" VERSION="$(VERSION)" scripts/packages $(DEBIAN)

try-packages: ## installs them in a fresh Debian by the commands of docs/install.md (as root); DEBIAN=trixie another suite
	@scripts/try-packages $(DEBIAN)

images: ## container images, with docker or podman: the relay, PostgreSQL with the extension, the extension for CloudNativePG
	@scripts/images

try-images: ## builds them without a registry, and runs what is in them (as root)
	@scripts/try-images

try-chart: ## lints the Helm chart and renders it, with helm, which Go builds where it is missing (some minutes of CPU, once)
	@scripts/try-chart
release: ## all files of a release into target/release-VERSION; DEBIAN="bookworm trixie" as for packages; WITHOUT=images leaves the images out
	@WITHOUT="$(WITHOUT)" PACKAGES="$(PACKAGES)" scripts/release $(DEBIAN)

matrix: ## the tests on PostgreSQL 14, 16, 17 and 18 (the last two with their RabbitMQ, in chroots; as root), and a table; an hour
	@T="$(T)" BENCH="$(BENCH)" CASE="$(CASE)" RUNS="$(RUNS)" scripts/matrix $(VERSIONS)

soak: programs extension ## random work and random faults, SEEDS times, until one run fails
	SEEDS=$(or $(SEEDS),20) LANES=$(or $(LANES),2) cargo test $(LOCKED) --test suite -- --nocapture random::$(or $(SINK),rabbitmq)_

simulate: ## the core in simulated worlds: SEEDS of them, or one SEED again; until a promise breaks, with its history
	@cargo build $(LOCKED) --release --quiet -p outbox-simulator
	@SEED=$(SEED) SEEDS=$(SEEDS) FAULTS=$(FAULTS) SMALL="$(SMALL)" "$(CARGO_TARGET_DIR)/release/outbox-simulate"

# The sections that measure other producers of Kafka, which take minutes to compile, once.
WITH_KAFKA := $(if $(ONLY),$(filter kafka publisher,$(ONLY)),all)

bench: extension ## speed and cost beside what the servers can do at all, in less than an hour
	cargo build $(LOCKED) --release
	$(if $(WITH_KAFKA),cargo build $(LOCKED) --release --manifest-path bench/kafka-clients/Cargo.toml --target-dir "$(CARGO_TARGET_DIR)/kafka-clients")
	@$(if $(findstring kafka,$(ONLY)),debezium=$$(scripts/debezium) && eval "$$debezium" &&) \
	$(if $(WITH_KAFKA),KAFKA_CLIENTS="$(CARGO_TARGET_DIR)/kafka-clients/release/outbox-kafka-clients") \
	AGAINST="$(AGAINST)" CASE="$(CASE)" QUICK=$(QUICK) RELAY="$(RELAY)" RUNS=$(RUNS) "$(CARGO_TARGET_DIR)/release/outbox-bench" $(ONLY)

lint: setup ## formatting, clippy (the extension too), licences and sources of dependencies, alert rules, the documents as a site
	scripts/setup lint
	cargo fmt --all --check
	@! LC_ALL=C.UTF-8 git grep -nP '^(?=.{121}) *//(?!.*(\||://))' -- '*.rs' || { echo "these comments go beyond column 120" >&2; exit 1; }
	cargo clippy $(LOCKED) --all-targets --features outbox-relay/otel -- --deny warnings
	cargo clippy $(LOCKED) --bin outbox-relay --test secrets -- --deny warnings
	cargo clippy $(LOCKED) -p outbox-simulator --all-targets -- --deny warnings
	scripts/lint-extension
	"$(CARGO_TARGET_DIR)/tools/bin/cargo-deny" check --hide-inclusion-graph bans licenses sources
	PATH="$(CARGO_TARGET_DIR)/tools/bin:$$PATH" && promtool check rules ops/alerts.yml && promtool test rules ops/alerts_test.yml && promtool check config docker/monitoring/prometheus.yml
	scripts/site

site: ## the documents as a site, into target/site; each link is checked
	scripts/setup site
	@scripts/site

servers: build extension ## a private PostgreSQL and RabbitMQ to play with, until Ctrl-C
	@"$(CARGO_TARGET_DIR)/debug/outbox-servers"

build: setup ## the relay and the test tools
	cargo build $(LOCKED)

# With the targets of tests, because only then cargo gives crates the features that tests ask for: `cargo test` would otherwise compile
# half of them again.
programs: setup ## all that tests run
	cargo build $(LOCKED) --all-targets

# Beside the default one, since a build with other features replaces the file.
relay-otel: setup ## all that tests run, and the relay with OpenTelemetry: outbox-relay-otel
	cargo build $(LOCKED) --features outbox-relay/otel --bin outbox-relay --test secrets
	@cp "$(CARGO_TARGET_DIR)/debug/outbox-relay" "$(CARGO_TARGET_DIR)/debug/outbox-relay-otel"
	cargo build $(LOCKED) --all-targets

extension: setup ## the extension, installed into the private PostgreSQL
	@pg_config=$$(scripts/private-postgres) && scripts/install-extension "$$pg_config"

setup: ## installs what is missing (packages by apt, with sudo if need be)
	@scripts/setup

all: ## the extension, for the PostgreSQL of PG_CONFIG (default: the one on PATH), not installed: what `pgxn install` calls first
	@scripts/build-extension "$${PG_CONFIG:-$$(command -v pg_config)}" >/dev/null

install: ## the extension, into the PostgreSQL of PG_CONFIG (default: the one on PATH); with sudo; DESTDIR for packagers
	@scripts/install-extension "$${PG_CONFIG:-$$(command -v pg_config)}" "$(DESTDIR)"

sql: ## the schema for tools that have no psql, each script in one file, into target/sql
	@scripts/sql

uninstall: ## undoes install
	@scripts/uninstall-extension "$${PG_CONFIG:-$$(command -v pg_config)}" "$(DESTDIR)"

clean: ## removes everything that was built, and the private servers' files
	@scripts/clean
