# The broker in a small image of its own, with a redis-server for where it is given none.
#
#   docker build -t delay-broker .
#   docker run -p 127.0.0.1:7379:7379 -e DELAY_BROKER_SERVER__PASSWORD=... \
#     delay-broker --redis redis://redis.example.com:6379
#
# Without --redis it starts its own Redis in /data, for which it needs a volume there (-v
# delay-data:/data). That one listens on the container's loopback only: consumers need
# `--network container:...`, or better a Redis beside it, see docker-compose.yml.
#
# The bases are release lines, so that a build takes in their security updates. To build from
# exact images: --build-arg RUST=rust@sha256:... --build-arg BASE=debian@sha256:...
ARG RUST=rust:1-bookworm
ARG BASE=debian:bookworm-slim

FROM ${RUST} AS build
WORKDIR /build
# The crates first, with an empty program: as long as Cargo.lock stays, so does this layer.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
 && touch src/lib.rs \
 && echo 'fn main() {}' > src/main.rs \
 && cargo build --release --locked --bin delay-broker
COPY config/default.toml config/
COPY docs docs
COPY lua lua
COPY src src
# Touched, because the files may be older than the empty program. Line numbers are left out and
# names of functions kept: a backtrace can still be read.
RUN touch src/lib.rs src/main.rs \
 && cargo build --release --locked --bin delay-broker \
 && strip --strip-debug target/release/delay-broker

FROM ${BASE}
LABEL org.opencontainers.image.title="delay-broker" \
      org.opencontainers.image.description="Delivers delayed messages into Redis lists, on time" \
      org.opencontainers.image.licenses="Apache-2.0"
# tini reaps processes that lose their parent, such as a rewrite of a Redis that was killed.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates redis-server tini \
 && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/* /etc/redis \
 && groupadd --gid 10001 broker \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin broker \
 && install -d -o broker -g broker -m 700 /data
COPY --from=build /build/target/release/delay-broker /usr/local/bin/

# All addresses, since a container's loopback is of no use. Protected mode stays on: without a
# password it refuses to start and says what to set. Of the ten seconds that `docker stop` gives,
# clients get seven at most and the Redis of its own the two after them.
ENV DELAY_BROKER_SERVER__LISTEN=0.0.0.0:7379 \
    DELAY_BROKER_SERVER__GRACE_S=7 \
    DELAY_BROKER_HTTP__LISTEN=0.0.0.0:7380 \
    DELAY_BROKER_MANAGED__DATA_DIR=/data
# By number, so that a platform that forbids root can see that this is another user.
USER 10001:10001
# Not /data: `docker exec` starts processes here, and one in /data that has the number of an earlier
# Redis would pass for that Redis.
WORKDIR /
# No VOLUME: with a given Redis each container would leave an empty one behind.
EXPOSE 7379 7380
STOPSIGNAL SIGTERM
# The check waits, so that the container is healthy as soon as the broker is ready, and looks every
# five seconds later. Without a start period: in one, newer engines check every five seconds only.
HEALTHCHECK --interval=1s --timeout=10s --retries=6 \
  CMD ["delay-broker", "health", "--running", "--wait", "4"]
ENTRYPOINT ["tini", "--", "delay-broker"]
