#!/usr/bin/env bash
# The broker from redis-cli. Environment and steps: tests/interop/README.md. (No pool: it has none.)
set -euo pipefail
shopt -s extglob
# The usual place for a password, as arguments are seen by others.
[ -z "$PASSWORD" ] || export REDISCLI_AUTH=$PASSWORD
options=(-p "$BROKER_PORT")
[ -z "$CA" ] || options+=(--tls --cacert "$CA")
# Protocol 2 is what redis-cli opens with when told nothing.
[ "$PROTOCOL" = 2 ] || options+=(-3)
broker() { redis-cli "${options[@]}" "$@"; }
backing() { env -u REDISCLI_AUTH redis-cli -p "$REDIS_PORT" "$@"; }

# is EXPECTED ACTUAL, where EXPECTED is a pattern of the shell.
is() {
  # shellcheck disable=SC2053
  [[ $2 == $1 ]] && return
  printf 'line %s: expected %s, got: %s\n' "${BASH_LINENO[0]}" "$1" "$2" >&2
  exit 1
}

# A shell cannot hold a NUL: each byte as two digits.
hex() { od -An -v -tx1 | tr -d ' \n'; }
binary='\0nul\r\ncrlf\xff\0'
large() { head -c 4194304 /dev/zero | tr '\0' x; }

is PONG "$(broker PING)"
is "proto*$PROTOCOL*" "$(broker HELLO | grep -A1 -w proto | tr -d '\n')"
echo connect

id=$(broker DQ.OFFER "$QUEUE" 30m hello)
is '+([0-9])-+([0-9a-f])' "$id"
tomorrow=$(($(date +%s) * 1000 + 86400000))
# -x takes the last argument from stdin.
at=$(printf "$binary" | broker -x DQ.OFFER "$QUEUE" AT "$tomorrow")
is "$tomorrow-*" "$at"
is '*-*' "$(broker dq.offer "$QUEUE" 1h 'order 42' name order:42)"
is '' "$(broker DQ.OFFER "$QUEUE" 1h again NAME order:42 NX)"
echo offer

ids=$(printf "$binary" | broker -x DQ.MOFFER "$QUEUE" 2h one 3h '' 4h)
is $'*-*\n*-*\n*-*' "$ids"
is 6 "$(broker DQ.SIZE "$QUEUE")"
echo moffer

cancelled=$(broker DQ.CANCEL "$QUEUE" "$id")
is 1 "$cancelled"
# shellcheck disable=SC2086
is 3 "$(broker DQ.CANCEL "$QUEUE" "$id" $ids)"
echo cancel

moved=$(broker DQ.RESCHEDULE "$QUEUE" order:42 45m)
is '+([0-9])-+([0-9a-f])' "$moved"
is '' "$(broker DQ.RESCHEDULE "$QUEUE" "$id" 45m)"
echo reschedule

# What people see: in RESP3 the names of fields are keys of a map.
peeked=$(broker --no-raw DQ.PEEK "$QUEUE" COUNT 5)
first="*\"id\"*\"$moved\"*\"name\"*\"order:42\"*\"payload\"*\"order 42\"*"
is "$first\"$at\"*(nil)*\\\\xff\\\\x00*" "$peeked"
[ "$PROTOCOL" = 2 ] || is '*1# "id" => *' "$peeked"
is '' "$(broker DQ.PEEK "$QUEUE:none")"
echo peek

is 'BADDELAY *' "$(broker DQ.OFFER "$QUEUE" soon x)"
is 'BADQUEUE *' "$(broker DQ.OFFER '' 1h x)"
is 'ERR wrong number of arguments*' "$(broker DQ.OFFER "$QUEUE")"
is 'ERR unknown command*' "$(broker DQ.NONE "$QUEUE")"
if broker -e DQ.OFFER "$QUEUE" soon x 2>/dev/null; then is 'an exit code' 0; fi
echo errors

# --pipe sends what it reads from stdin, and counts the replies.
for ((i = 0; i < 1000; i++)); do
  printf '*4\r\n$8\r\nDQ.OFFER\r\n$%d\r\n%s\r\n$2\r\n1h\r\n$8\r\n\0\r\n\xff%04d\r\n' \
    $((${#QUEUE} + 5)) "$QUEUE:many" "$i"
done | broker --pipe | tail -1 | grep -qx 'errors: 0, replies: 1000'
is 1000 "$(broker DQ.SIZE "$QUEUE:many")"
echo pipeline

printf "$binary" | broker -x DQ.OFFER "$QUEUE" 20ms >/dev/null
taken=$(backing BLPOP "$QUEUE" 10 | hex)
is "$(printf "%s\n$binary\n" "$QUEUE" | hex)" "$taken"
echo binary

id=$(large | broker -x DQ.OFFER "$QUEUE" 1h)
is 4194304 "$(broker DQ.GET "$QUEUE" "$id" | tr -cd x | wc -c)"
is 1 "$(broker DQ.FIRE "$QUEUE" "$id")"
is "$({ echo "$QUEUE"; large; echo; } | cksum)" "$(backing BLPOP "$QUEUE" 10 | cksum)"
echo large

# A message is handed out until it is acknowledged. In RESP3 redis-cli prints `name value`, in RESP2
# a line for each; the receipt is plain to see in both.
printf "$binary" | broker -x DQ.MOFFER "$QUEUE" 0 one 0 '' 0 >/dev/null
take() { broker DQ.TAKE "$QUEUE" BLOCK 5s | tr '\0\n' '0 '; }
receipt() { grep -oE '[0-9a-f]{16}:[0-9]+' | head -1; }
taken=$(broker DQ.TAKE "$QUEUE" BLOCK 5s)
is '*attempt?1*payload?one?message?0-*' "$taken"
one=$(receipt <<<"$taken") taken=$(take)
is '*attempt 1*payload  message 0-*' "$taken"
two=$(receipt <<<"$taken") taken=$(take)
is "*attempt 1*payload $(printf "$binary" | tr '\0\n' '0 ') message 0-*" "$taken"
three=$(receipt <<<"$taken")
acked=$(broker DQ.ACK "$QUEUE" "$one")
is 1 "$acked"
is 0 "$(broker DQ.ACK "$QUEUE" "$one")"
is 2 "$(broker DQ.EXTEND "$QUEUE" "$two" "$three" LEASE 2m)"
is 1 "$(broker DQ.NACK "$QUEUE" "$two" DELAY 0 REASON 'not yet')"
taken=$(take)
is "*id ${two%:*} attempt 2*payload  message 0-*" "$taken"
is 2 "$(broker DQ.ACK "$QUEUE" "$(receipt <<<"$taken")" "$three")"
is '' "$(broker DQ.TAKE "$QUEUE")"
echo consume

# Commands from stdin, as somebody types them; the broker restarts between the first and the last.
# (At the start it asks for COMMAND DOCS, which is where its hints and HELP come from.)
said=$({
  printf '%s\n' "DQ.OFFER $QUEUE:typed 1h x" 'HELP DQ.OFFER'
  for ((i = 0; i < 500; i++)); do
    [ "$(broker DQ.SIZE "$QUEUE:typed")" = 0 ] || break
    sleep 0.02
  done
  "$RESTART" >&2
  printf '%s\n' "DQ.SIZE $QUEUE" "DQ.SIZE $QUEUE" QUIT
} | broker)
is $'*-*\n*DQ.OFFER*queue delay*summary*\n2*' "$said"
echo restart

is OK "$(broker QUIT)"
echo quit
