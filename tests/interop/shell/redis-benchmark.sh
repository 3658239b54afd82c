#!/usr/bin/env bash
# The broker from redis-benchmark. Environment and steps: tests/interop/README.md. (Offers only.)
set -euo pipefail
options=(-p "$BROKER_PORT")
[ -z "$PASSWORD" ] || options+=(-a "$PASSWORD")
[ -z "$CA" ] || options+=(--tls --cacert "$CA")
[ "$PROTOCOL" = 2 ] || options+=(-3)

# offers COUNT QUEUE OPTION... <PAYLOAD: it ends at the first error; what it did is in the queue.
offers() {
  local count=$1 queue=$2
  shift 2
  redis-benchmark "${options[@]}" -n "$count" --csv "$@" -x DQ.OFFER "$queue" 1h >"$log" 2>&1
  grep -q '^"DQ.OFFER' "$log" || { cat "$log" >&2; exit 1; }
  # It sends a last few more than it counts.
  local size
  size=$(redis-cli -p "$REDIS_PORT" ZCARD "redisson_delay_queue_timeout:{$queue}")
  ((size >= count && size < count + 5000)) || { echo "$queue holds $size" >&2; exit 1; }
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

offers 1 "$QUEUE" -c 1 <<<message
echo connect
offers 100 "$QUEUE:one" -c 1 <<<message
echo offer
offers 10000 "$QUEUE:many" -c 1 -P 1000 <<<message
echo pipeline
head -c 4194304 /dev/zero | offers 1 "$QUEUE:large" -c 1
echo large
offers 10000 "$QUEUE:pool" -c 50 <<<message
echo pool
"$RESTART"
offers 100 "$QUEUE:again" -c 1 <<<message
echo restart
echo quit
