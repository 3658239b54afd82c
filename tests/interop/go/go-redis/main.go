// The broker from go-redis. Environment and steps: tests/interop/README.md.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	queue  = os.Getenv("QUEUE")
	resp3  = os.Getenv("PROTOCOL") == "3"
	binary = "\x00nul\r\ncrlf\xff\x00"
	large  = strings.Repeat("\x00\x01\r\n\xfe\xff$*", 4<<20/8)
)

func options() *redis.Options {
	// Protocol 3 is what go-redis 9 opens with when told nothing.
	options := &redis.Options{Addr: "localhost:" + os.Getenv("BROKER_PORT")}
	if !resp3 {
		options.Protocol = 2
	}
	options.Password = os.Getenv("PASSWORD")
	if ca := os.Getenv("CA"); ca != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(must(os.ReadFile(ca)))
		options.TLSConfig = &tls.Config{RootCAs: roots}
	}
	return options
}

func main() {
	// `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
	broker := redis.NewClient(options())
	backing := redis.NewClient(&redis.Options{Addr: "localhost:" + os.Getenv("REDIS_PORT")})
	is(must(broker.Ping(ctx).Result()), "PONG")
	passed("connect")

	id, err := broker.Do(ctx, "DQ.OFFER", queue, "30m", "hello").Text()
	is(err, nil)
	tomorrow := time.Now().Add(24 * time.Hour).UnixMilli()
	at := must(broker.Do(ctx, "DQ.OFFER", queue, "AT", tomorrow, binary).Text())
	is(strings.HasPrefix(at, fmt.Sprint(tomorrow, "-")), true)
	offer := []any{"DQ.OFFER", queue, "1h", "order 42", "NAME", "order:42"}
	named := must(broker.Do(ctx, offer...).Text())
	is(broker.Do(ctx, append(offer, "NX")...).Err() == redis.Nil, true)
	passed("offer")

	pairs := []any{"DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", []byte(binary)}
	ids := must(broker.Do(ctx, pairs...).StringSlice())
	is(len(ids), 3)
	is(must(broker.Do(ctx, "DQ.SIZE", queue).Int()), 6)
	passed("moffer")

	cancelled, err := broker.Do(ctx, "DQ.CANCEL", queue, id).Int()
	is(err, nil)
	is(cancelled, 1)
	is(must(broker.Do(ctx, "DQ.CANCEL", queue, id, ids[0], ids[1], ids[2]).Int()), 3)
	err = broker.Do(ctx, "DQ.OFFER", queue, "1h", "remind 42", "NAME", "remind:42").Err()
	is(err, nil)
	byName, err := broker.Do(ctx, "DQ.CANCEL", queue, "remind:42").Int()
	is(err, nil)
	is(byName, 1)
	passed("cancel")

	moved := must(broker.Do(ctx, "DQ.RESCHEDULE", queue, "order:42", "45m").Text())
	is(moved != named, true)
	is(broker.Do(ctx, "DQ.RESCHEDULE", queue, named, "45m").Err() == redis.Nil, true)
	passed("reschedule")

	peeked := must(broker.Do(ctx, "DQ.PEEK", queue, "COUNT", 5).Slice())
	is(len(peeked), 2)
	first, second := fields(peeked[0]), fields(peeked[1])
	is([3]any{first["id"], first["name"], first["payload"]}, [3]any{moved, "order:42", "order 42"})
	is([3]any{second["id"], second["name"], second["payload"]}, [3]any{at, nil, binary})
	is(second["due"], any(tomorrow))
	is(len(must(broker.Do(ctx, "DQ.PEEK", queue+":none").Slice())), 0)
	passed("peek")

	// The first word of an error is its code.
	for code, command := range map[string][]any{
		"BADDELAY ":                     {"DQ.OFFER", queue, "soon", "x"},
		"BADQUEUE ":                     {"DQ.OFFER", "", "1h", "x"},
		"ERR wrong number of arguments": {"DQ.OFFER", queue},
		"ERR unknown command":           {"DQ.NONE", queue},
	} {
		var refused redis.Error
		err := broker.Do(ctx, command...).Err()
		is(errors.As(err, &refused), true)
		is(strings.HasPrefix(err.Error(), code), true)
	}
	passed("errors")

	// A thousand in one write; the replies come in order.
	replies := must(broker.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for i := range int64(1000) {
			pipeline.Do(ctx, "DQ.OFFER", queue+":many", "AT", tomorrow+i, fmt.Sprint("message ", i))
		}
		return nil
	}))
	for i, reply := range replies {
		id := must(reply.(*redis.Cmd).Text())
		is(strings.HasPrefix(id, fmt.Sprint(tomorrow+int64(i), "-")), true)
	}
	is(len(replies), 1000)
	passed("pipeline")

	// Of several queues, stored with one call, or not at all.
	replies = must(broker.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		transaction.Do(ctx, "DQ.OFFER", queue+":a", "1h", "first", "NAME", "one")
		transaction.Do(ctx, "DQ.MOFFER", queue+":b", "1h", []byte(binary), "2h", "")
		return nil
	}))
	id = must(replies[0].(*redis.Cmd).Text())
	ids = must(replies[1].(*redis.Cmd).StringSlice())
	is(must(broker.Do(ctx, "DQ.CANCEL", queue+":a", id).Int()), 1)
	is(must(broker.Do(ctx, "DQ.CANCEL", queue+":b", ids[0], ids[1]).Int()), 2)
	_, err = broker.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		transaction.Do(ctx, "DQ.OFFER", queue+":a", "1h", "good")
		transaction.Do(ctx, "DQ.OFFER", queue+":a", "soon", "bad")
		return nil
	})
	is(err != nil && strings.HasPrefix(err.Error(), "EXECABORT "), true)
	is(must(broker.Do(ctx, "DQ.SIZE", queue+":a").Int()), 0)
	passed("transaction")

	must(broker.Do(ctx, "DQ.OFFER", queue, "20ms", []byte(binary)).Text())
	taken, err := backing.BLPop(ctx, 10*time.Second, queue).Result()
	is(err, nil)
	is([2]string(taken), [2]string{queue, binary})
	passed("binary")

	id = must(broker.Do(ctx, "DQ.OFFER", queue, "1h", large).Text())
	is(fields(must(broker.Do(ctx, "DQ.GET", queue, id).Result()))["payload"] == large, true)
	is(must(broker.Do(ctx, "DQ.FIRE", queue, id).Int()), 1)
	work, err := backing.BLMove(ctx, queue, queue+":working", "LEFT", "RIGHT", 10*time.Second).Result()
	is(err, nil)
	is(work == large, true)
	backing.LRem(ctx, queue+":working", 1, work)
	is(must(backing.Exists(ctx, queue+":working").Result()), int64(0))
	passed("large")

	// A message is handed out until it is acknowledged.
	must(broker.Do(ctx, "DQ.MOFFER", queue, 0, "one", 0, "", 0, binary).StringSlice())
	var messages []map[any]any
	for len(messages) < 3 {
		taken, err := broker.Do(ctx, "DQ.TAKE", queue, "COUNT", 3, "BLOCK", "4s").Slice()
		is(err, nil)
		for _, message := range taken {
			messages = append(messages, fields(message))
		}
	}
	for i, payload := range []string{"one", "", binary} {
		is([2]any{messages[i]["payload"], messages[i]["attempt"]}, [2]any{payload, int64(1)})
	}
	one, two, three := messages[0]["receipt"], messages[1]["receipt"], messages[2]["receipt"]
	acked, err := broker.Do(ctx, "DQ.ACK", queue, one).Int()
	is(err, nil)
	is(acked, 1)
	is(must(broker.Do(ctx, "DQ.ACK", queue, one).Int()), 0)
	is(must(broker.Do(ctx, "DQ.EXTEND", queue, two, three, "LEASE", "2m").Int()), 2)
	nack := []any{"DQ.NACK", queue, two, "DELAY", 0, "REASON", "not yet"}
	is(must(broker.Do(ctx, nack...).Int()), 1)
	again := fields(must(broker.Do(ctx, "DQ.TAKE", queue, "BLOCK", "4s").Slice())[0])
	is([3]any{again["id"], again["attempt"], again["payload"]}, [3]any{messages[1]["id"], int64(2), ""})
	is(must(broker.Do(ctx, "DQ.ACK", queue, again["receipt"], three).Int()), 2)
	is(broker.Do(ctx, "DQ.TAKE", queue).Err() == redis.Nil, true)
	passed("consume")

	fifty := options()
	fifty.PoolSize = 50
	pool := redis.NewClient(fifty)
	var workers sync.WaitGroup
	for range 50 {
		workers.Go(func() {
			for range 20 {
				must(pool.Do(ctx, "DQ.OFFER", queue+":pool", "1h", "x").Text())
			}
		})
	}
	workers.Wait()
	is(must(pool.Do(ctx, "DQ.SIZE", queue+":pool").Int()), 1000)
	is(pool.Close(), nil)
	passed("pool")

	// go-redis sees the closed connection before it sends, and takes another.
	is(exec.Command(os.Getenv("RESTART")).Run(), nil)
	is(must(broker.Do(ctx, "DQ.SIZE", queue).Int()), 2)
	passed("restart")

	is(broker.Close(), nil)
	is(backing.Close(), nil)
	passed("quit")
}

// A message as DQ.PEEK tells it: a map in RESP3, names and values in turn in RESP2.
func fields(message any) map[any]any {
	if resp3 {
		return message.(map[any]any)
	}
	flat, fields := message.([]any), map[any]any{}
	for i := 0; i < len(flat); i += 2 {
		fields[flat[i]] = flat[i+1]
	}
	return fields
}

func passed(step string) { fmt.Println(step) }

func must[T any](value T, err error) T {
	is(err, nil)
	return value
}

func is[T comparable](got, expected T) {
	if got != expected {
		panic(fmt.Sprintf("got %q, expected %q", any(got), any(expected)))
	}
}
