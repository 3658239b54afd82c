# What is typed by people and by CI. `make run ARGS='--listen 127.0.0.1:7000'` passes flags on.

ARGS ?=

.PHONY: help run test sentinel cluster browser pictures versions interop redisson upgrade containers bench peers lint redis

help:
	@echo "make run         build, start the broker with a Redis of its own, say what to type next"
	@echo "make test        all tests, each process with a Redis of its own"
	@echo "make cluster     a Redis Cluster: slots that move, failovers; two minutes"
	@echo "make sentinel    failovers under real Sentinels, about a minute"
	@echo "make browser     the console in Chromium (needs Debian's chromium and chromium-driver, npm)"
	@echo "make pictures    the pictures of the console in docs/ui, made anew"
	@echo "make versions    tests on Redis 6.2 and 7.4 and on Valkey (needs python3, make, a C compiler, Debian)"
	@echo "make interop     clients of other languages against a debug build; says which language is missing"
	@echo "make redisson    Redisson itself in eight versions (needs a JDK, maven, faketime); part of interop"
	@echo "make upgrade     an earlier version and this one on one data set, there and back and both at once"
	@echo "make bench       offers, lateness, drains and what they cost, measured beside Redisson"
	@echo "make peers       the same work on BullMQ, asynq, beanstalkd and RSMQ, as a table"
	@echo "make containers  image and compose file, built and run (needs a Docker daemon)"
	@echo "make lint        formatting and clippy, as CI asks for"
	@echo "run, test, bench, peers, interop and redisson install redis-server first where it is missing (Debian), or say what to install."

# The profile `quick` compiles without LTO and debug information; releases, images and benchmarks have
# both. `exec` all the way down: Ctrl-C reaches the broker itself, and make waits for its stop.
run: redis
	@exec cargo run --profile quick --locked -- --hints $(ARGS)

test: redis
	cargo test --locked

# One at a time: nodes and Sentinels measure time.
cluster: redis
	cargo test --quiet --locked --test cluster -- --test-threads 1 --nocapture $(ARGS)

sentinel: redis
	cargo test --quiet --locked --test sentinel -- --test-threads 1 --nocapture $(ARGS)

# ARGS=keyboard runs what has this word in its name.
browser: redis
	@tests/browser/run $(ARGS)

pictures: redis
	@PICTURES=$(CURDIR)/docs/ui tests/browser/run pictures

# Builds the first and downloads the others.
versions:
	@tests/redis-versions

# ARGS=--help lists the rows, ARGS=--quick is a smoke test. Redisson needs a JDK and Maven, and is
# left out where they are missing.
bench: redis
	cargo bench --locked --bench load -- $(ARGS)

# Needs Node and Go; downloads the others at pinned versions. ARGS=--quick shows that it works.
peers: redis
	@tests/load/peers/run $(ARGS)

# Downloads the clients, at pinned versions, from their registries. ARGS='redis-py Jedis' runs those.
interop: redis
	@tests/interop/run $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory redisson)

# Each version from Maven Central, once. ARGS='4.7.0 clock' runs what has these words in its name.
redisson: redis
	cargo test --quiet --locked --test redisson -- $(ARGS)

# Builds the earlier one first, from the history of this clone; FROM=<commit> takes another one.
upgrade: redis
	@earlier=$$(tests/upgrade/build) && EARLIER=$$earlier cargo test --quiet --locked --test upgrade -- $(ARGS)

# Pulls the images that the two files name, where they are missing.
containers:
	@tests/containers/run

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --test redisson --test upgrade --test browser -- -D warnings

redis:
	@.ci/install-redis
