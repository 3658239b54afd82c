# What is typed by people and by CI. `make run ARGS='--listen 127.0.0.1:7000'` passes flags on.

ARGS ?=

.PHONY: help run test interop bench lint redis

help:
	@echo "make run      build, start the broker with a Redis of its own, say what to type next"
	@echo "make test     all tests, each process with a Redis of its own"
	@echo "make interop  clients of other languages against a debug build (needs python3, node, npm)"
	@echo "make bench    offers, lateness, idle cost and drains, measured beside Redis itself"
	@echo "make lint     formatting and clippy, as CI asks for"
	@echo "All but lint install redis-server first where it is missing (Debian), or say what to install."

# `exec` all the way down: Ctrl-C reaches the broker itself, and make waits for its stop.
run: redis
	@exec cargo run --release --locked -- --hints $(ARGS)

test: redis
	cargo test --locked

# Rows side by side with Redis itself: ARGS='--help' lists them, ARGS=--quick is a smoke test.
bench: redis
	cargo bench --locked --bench load -- $(ARGS)

# Downloads the clients, at pinned versions, from their registries.
interop: redis
	@tests/interop/run

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

redis:
	@.ci/install-redis
