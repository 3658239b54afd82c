# The broker in a small image of its own, with a redis-server for where it is given none.
#
#   docker build -t delay-broker .
#   docker run -p 127.0.0.1:7379:7379 -e DELAY_BROKER_SERVER__PASSWORD=... -v delay-data:/data \
#     delay-broker --redis redis://redis.example.com:6379
#
# Without --redis it starts its own Redis in /data. That one listens on the container's loopback
# only: consumers need `--network container:...`, or better a Redis beside it, see
# docker-compose.yml.

FROM rust:1-bookworm AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY config config
COPY lua lua
RUN cargo build --release --locked --bin delay-broker

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates redis-server \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --no-create-home broker \
 && install -d -o broker -g broker -m 700 /data
COPY --from=build /build/target/release/delay-broker /usr/local/bin/

# All addresses, since a container's loopback is of no use. Protected mode stays on: without a
# password it refuses to start and says what to set.
ENV DELAY_BROKER_SERVER__LISTEN=0.0.0.0:7379 \
    DELAY_BROKER_HTTP__LISTEN=0.0.0.0:7380 \
    DELAY_BROKER_MANAGED__DATA_DIR=/data
USER broker
VOLUME /data
EXPOSE 7379 7380
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
  CMD ["delay-broker", "health"]
ENTRYPOINT ["delay-broker"]
