// The broker from rueidis. Environment and steps: tests/interop/README.md.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var (
	ctx    = context.Background()
	queue  = os.Getenv("QUEUE")
	resp3  = os.Getenv("PROTOCOL") == "3"
	binary = "\x00nul\r\ncrlf\xff\x00"
	large  = strings.Repeat("\x00\x01\r\n\xfe\xff$*", 4<<20/8)
)

func options() rueidis.ClientOption {
	options := rueidis.ClientOption{InitAddress: []string{"localhost:" + os.Getenv("BROKER_PORT")}}
	// Protocol 3 is what rueidis opens with when told nothing; 2 it takes only without a cache.
	if !resp3 {
		options.AlwaysRESP2, options.DisableCache = true, true
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
	broker := must(rueidis.NewClient(options()))
	backing := must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"localhost:" + os.Getenv("REDIS_PORT")},
	}))
	command := func(client rueidis.Client, name string, args ...string) rueidis.Completed {
		return client.B().Arbitrary(name).Args(args...).Build()
	}
	dq := func(name string, args ...string) rueidis.RedisResult {
		return broker.Do(ctx, command(broker, name, args...))
	}
	is(must(dq("PING").ToString()), "PONG")
	passed("connect")

	offer := broker.B().Arbitrary("DQ.OFFER").Keys(queue).Args("30m", "hello").Build()
	id, err := broker.Do(ctx, offer).ToString()
	is(err, nil)
	tomorrow := time.Now().Add(24 * time.Hour).UnixMilli()
	at := must(dq("DQ.OFFER", queue, "AT", fmt.Sprint(tomorrow), binary).ToString())
	is(strings.HasPrefix(at, fmt.Sprint(tomorrow, "-")), true)
	args := []string{queue, "1h", "order 42", "NAME", "order:42"}
	named := must(dq("DQ.OFFER", args...).ToString())
	is(rueidis.IsRedisNil(dq("DQ.OFFER", append(args, "NX")...).Error()), true)
	passed("offer")

	ids := must(dq("DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", binary).AsStrSlice())
	is(len(ids), 3)
	is(must(dq("DQ.SIZE", queue).ToInt64()), 6)
	passed("moffer")

	cancel := broker.B().Arbitrary("DQ.CANCEL").Keys(queue).Args(id).Build()
	cancelled, err := broker.Do(ctx, cancel).ToInt64()
	is(err, nil)
	is(cancelled, 1)
	is(must(dq("DQ.CANCEL", queue, id, ids[0], ids[1], ids[2]).ToInt64()), 3)
	passed("cancel")

	moved := must(dq("DQ.RESCHEDULE", queue, "order:42", "45m").ToString())
	is(moved != named, true)
	is(rueidis.IsRedisNil(dq("DQ.RESCHEDULE", queue, named, "45m").Error()), true)
	passed("reschedule")

	// A message is a map in RESP3, names and values in turn in RESP2; AsMap reads both.
	peeked := must(dq("DQ.PEEK", queue, "COUNT", "5").ToArray())
	is(len(peeked), 2)
	first, second := must(peeked[0].AsMap()), must(peeked[1].AsMap())
	is(peeked[0].IsMap(), resp3)
	is(text(first, "id", "name", "payload"), moved+" order:42 order 42")
	is(text(second, "id", "payload"), at+" "+binary)
	name, due := second["name"], second["due"]
	is(name.IsNil(), true)
	is(must(due.ToInt64()), tomorrow)
	is(len(must(dq("DQ.PEEK", queue+":none").ToArray())), 0)
	passed("peek")

	// The first word of an error is its code; rueidis keeps "ERR" to itself.
	for code, command := range map[string][]string{
		"BADDELAY ":                 {"DQ.OFFER", queue, "soon", "x"},
		"BADQUEUE ":                 {"DQ.OFFER", "", "1h", "x"},
		"wrong number of arguments": {"DQ.OFFER", queue},
		"unknown command":           {"DQ.NONE", queue},
	} {
		refused, ok := rueidis.IsRedisErr(dq(command[0], command[1:]...).Error())
		is(ok, true)
		is(strings.HasPrefix(refused.Error(), code), true)
	}
	passed("errors")

	// A thousand at once; the replies come in order.
	many := make(rueidis.Commands, 1000)
	for i := range many {
		due := fmt.Sprint(tomorrow + int64(i))
		many[i] = command(broker, "DQ.OFFER", queue+":many", "AT", due, fmt.Sprint("message ", i))
	}
	for i, reply := range broker.DoMulti(ctx, many...) {
		id := must(reply.ToString())
		is(strings.HasPrefix(id, fmt.Sprint(tomorrow+int64(i), "-")), true)
	}
	passed("pipeline")

	must(dq("DQ.OFFER", queue, "20ms", binary).ToString())
	take := backing.B().Blpop().Key(queue).Timeout(10).Build()
	taken, err := backing.Do(ctx, take).AsStrSlice()
	is(err, nil)
	is([2]string(taken), [2]string{queue, binary})
	passed("binary")

	id = must(dq("DQ.OFFER", queue, "1h", large).ToString())
	is(text(must(dq("DQ.GET", queue, id).AsMap()), "payload") == large, true)
	is(must(dq("DQ.FIRE", queue, id).ToInt64()), 1)
	take = backing.B().Blpop().Key(queue).Timeout(10).Build()
	is(must(backing.Do(ctx, take).AsStrSlice())[1] == large, true)
	passed("large")

	// A message is handed out until it is acknowledged. Blocking gives it a connection of its own.
	must(dq("DQ.MOFFER", queue, "0", "one", "0", "", "0", binary).AsStrSlice())
	var messages []map[string]rueidis.RedisMessage
	for len(messages) < 3 {
		lend := broker.B().Arbitrary("DQ.TAKE").Keys(queue).Args("COUNT", "3", "BLOCK", "5s").Blocking()
		taken, err := broker.Do(ctx, lend).ToArray()
		is(err, nil)
		for _, message := range taken {
			messages = append(messages, must(message.AsMap()))
		}
	}
	for i, payload := range []string{"one", "", binary} {
		is(text(messages[i], "payload"), payload)
		is(number(messages[i], "attempt"), 1)
	}
	one, three := text(messages[0], "receipt"), text(messages[2], "receipt")
	ack := broker.B().Arbitrary("DQ.ACK").Keys(queue).Args(one).Build()
	acked, err := broker.Do(ctx, ack).ToInt64()
	is(err, nil)
	is(acked, 1)
	is(must(dq("DQ.ACK", queue, one).ToInt64()), 0)
	two := text(messages[1], "receipt")
	is(must(dq("DQ.EXTEND", queue, two, three, "LEASE", "2m").ToInt64()), 2)
	is(must(dq("DQ.NACK", queue, two, "DELAY", "0", "REASON", "not yet").ToInt64()), 1)
	lend := broker.B().Arbitrary("DQ.TAKE").Keys(queue).Args("BLOCK", "5s").Blocking()
	again := must(must(broker.Do(ctx, lend).ToArray())[0].AsMap())
	is(text(again, "id", "payload"), text(messages[1], "id", "payload"))
	is(number(again, "attempt"), 2)
	is(must(dq("DQ.ACK", queue, text(again, "receipt"), three).ToInt64()), 2)
	is(rueidis.IsRedisNil(dq("DQ.TAKE", queue).Error()), true)
	passed("consume")

	// By default all share one connection; a dedicated one comes from the pool.
	fifty := options()
	fifty.BlockingPoolSize = 50
	pool := must(rueidis.NewClient(fifty))
	var workers, opened sync.WaitGroup
	opened.Add(50)
	for range 50 {
		workers.Go(func() {
			is(pool.Dedicated(func(client rueidis.DedicatedClient) error {
				opened.Done()
				opened.Wait()
				for range 20 {
					offer := client.B().Arbitrary("DQ.OFFER").Keys(queue+":pool").Args("1h", "x")
					must(client.Do(ctx, offer.Build()).ToString())
				}
				return nil
			}), nil)
		})
	}
	workers.Wait()
	is(must(dq("DQ.SIZE", queue+":pool").ToInt64()), 1000)
	pool.Close()
	passed("pool")

	// rueidis repeats by itself only what it knows to change nothing: here we do.
	is(exec.Command(os.Getenv("RESTART")).Run(), nil)
	size, err := dq("DQ.SIZE", queue).ToInt64()
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); {
		size, err = dq("DQ.SIZE", queue).ToInt64()
	}
	is(err, nil)
	is(size, 2)
	passed("restart")

	broker.Close()
	backing.Close()
	passed("quit")
}

func text(message map[string]rueidis.RedisMessage, names ...string) string {
	values := make([]string, len(names))
	for i, name := range names {
		field := message[name]
		values[i] = must(field.ToString())
	}
	return strings.Join(values, " ")
}

func number(message map[string]rueidis.RedisMessage, name string) int64 {
	field := message[name]
	return must(field.ToInt64())
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
