#!/usr/bin/env bash
# The broker from redis-cli: redis-cli.sh MODE BROKER_PORT REDIS_PORT
# Modes: one-shot, stdin, resp3, pipe, benchmark (redis-benchmark, which comes with redis-cli).
#
# Knows no other client; fails with the line that was not so. Each mode has a queue of its own.
set -euo pipefail
mode=$1 broker_port=$2 redis_port=$3
q=interop:redis-cli:$mode
dq() { redis-cli -p "$broker_port" "$@"; }

# is EXPECTED ACTUAL, where EXPECTED is a pattern of the shell.
is() {
  # shellcheck disable=SC2053
  [[ $2 == $1 ]] && return
  printf 'line %s: expected %s, got: %s\n' "${BASH_LINENO[0]}" "$1" "$2" >&2
  exit 1
}

# What is in the list of Redis, each byte as two digits: a shell cannot hold a NUL.
hex() { od -An -v -tx1 | tr -d ' \n'; }
blpop() { redis-cli -p "$redis_port" BLPOP "$1" 10 | hex; }

one-shot() {
  local first tomorrow
  tomorrow=$(($(date +%s) * 1000 + 86400000))
  first=$(dq DQ.OFFER "$q" 1h 'in an hour')
  is '+([0-9])-+([0-9a-f])' "$first"
  is "$tomorrow-*" "$(dq DQ.OFFER "$q" AT "$tomorrow" tomorrow)"
  is '*-*' "$(dq DQ.OFFER "$q" AT "$(date -u -d "@$((tomorrow / 1000))" +%FT%TZ)" tomorrow)"
  is '*-*' "$(dq dq.offer "$q" 2h 'order 42' name order:42)"
  is '' "$(dq DQ.OFFER "$q" 2h 'order 42' NAME order:42 NX)"
  is $'*-*\n*-*' "$(dq DQ.MOFFER "$q" 3h one 4h '')"
  is 6 "$(dq DQ.SIZE "$q")"
  is "*id*$first*payload*in an hour*" "$(dq DQ.PEEK "$q" COUNT 1)"
  is 2 "$(dq DQ.CANCEL "$q" order:42 "$first")"
  is 'BADDELAY *' "$(dq DQ.OFFER "$q" soon x)"
  if dq -e DQ.OFFER "$q" soon x; then is 'an exit code' 0; fi 2>/dev/null
  # A payload from stdin, with all that is difficult in it.
  printf '\0nul\r\ncrlf\xff\0' | dq -x DQ.OFFER "$q" 20ms >/dev/null
  is "$(printf '%s\n\0nul\r\ncrlf\xff\0\n' "$q" | hex)" "$(blpop "$q")"
}

# Asks for COMMAND DOCS first, which is where its hints and HELP come from.
stdin() {
  local said
  said=$(printf '%s\n' "DQ.OFFER $q 1h \"in an \\x00hour\"" "DQ.SIZE $q" 'HELP DQ.OFFER' QUIT | dq)
  is $'*-*\n1\n*DQ.OFFER*queue delay*summary*' "$said"
}

resp3() {
  local id
  id=$(dq -3 DQ.OFFER "$q" 1h 'in an hour')
  is '*1# "id" => "'"$id"'"*"name" => (nil)*"payload" => "in an hour"*' \
    "$(dq -3 --no-raw DQ.PEEK "$q")"
  is 'proto 3' "$(dq -3 HELLO | grep -w proto)"
  is 'BADDELAY *' "$(dq -3 DQ.OFFER "$q" soon x)"
}

pipe() {
  local i
  for ((i = 0; i < 5000; i++)); do
    printf '*4\r\n$8\r\nDQ.OFFER\r\n$%d\r\n%s\r\n$2\r\n1h\r\n$8\r\n\0\r\n\xff%04d\r\n' \
      ${#q} "$q" "$i"
  done | dq --pipe | tail -1 | grep -qx 'errors: 0, replies: 5000'
  is 5000 "$(dq DQ.SIZE "$q")"
  # Delivered as they were sent, in that order: the first is fired, then taken.
  dq DQ.FIRE "$q" "$(dq DQ.PEEK "$q" COUNT 1 | grep -a -A1 -x id | tail -1)" >/dev/null
  is "$(printf '%s\n\0\r\n\xff0000\n' "$q" | hex)" "$(blpop "$q")"
}

benchmark() {
  redis-benchmark -p "$broker_port" -P 16 -n 100000 --csv DQ.OFFER "$q" 1h __rand_int__ |
    grep '^"DQ.OFFER' >/dev/null
  is '1[0-9][0-9][0-9][0-9][0-9]' "$(dq DQ.SIZE "$q")"
}

shopt -s extglob
"$mode"
