// One side of a queue that is measured: a producer, or a worker with 50 messages at a time whose
// handler only notes the time. `main PEER producer COUNT DELAY_MS PER_SECOND` and `main PEER worker
// COUNT`; PORT is where the peer's server listens. tests/load/peers/run says what is printed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	concurrency  = 50
	payloadBytes = 100
	queueName    = "work"
)

type peer interface {
	// One for each goroutine that offers, where connections are not shared.
	producer() func(payload string, delay time.Duration) error
	// Returns at once; handles at most `concurrency` at a time.
	work(handle func(payload string))
}

var peers = map[string]func(address string) peer{
	"asynq":      func(address string) peer { return asynqPeer{address, 0} },
	"asynq-1s":   func(address string) peer { return asynqPeer{address, time.Second} },
	"beanstalkd": func(address string) peer { return beanstalkPeer{address} },
	"broker-go":  newBrokerPeer,
}

func main() {
	address := "127.0.0.1:" + os.Getenv("PORT")
	chosen := peers[os.Args[1]](address)
	count := number(os.Args[3])
	if os.Args[2] == "producer" {
		delay := time.Duration(number(os.Args[4])) * time.Millisecond
		produce(chosen, count, delay, number(os.Args[5]))
	} else {
		work(chosen, count)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(what map[string]any) { must(json.NewEncoder(os.Stdout).Encode(what)) }

// `perSecond` 0 is as fast as it goes.
func produce(chosen peer, count int, delay time.Duration, perSecond int) {
	next := make(chan int)
	start := time.Now()
	go func() {
		for i := range count {
			if perSecond > 0 {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
			}
			next <- i
		}
		close(next)
	}()
	var all sync.WaitGroup
	for range concurrency {
		offer := chosen.producer()
		all.Go(func() {
			for i := range next {
				due := time.Now().Add(delay).UnixMicro()
				payload := fmt.Sprintf("%d:%d:", i, due)
				payload += strings.Repeat(".", payloadBytes-len(payload))
				must(offer(payload, delay))
			}
		})
	}
	all.Wait()
	say(map[string]any{"first": start.UnixMicro(), "last": time.Now().UnixMicro()})
}

func work(chosen peer, count int) {
	var lock sync.Mutex
	seen := make(map[string]bool, count)
	late := make([]int64, 0, count)
	doubled := 0
	done := make(chan int64, 1)
	chosen.work(func(payload string) {
		now := time.Now().UnixMicro()
		parts := strings.Split(payload, ":")
		lock.Lock()
		defer lock.Unlock()
		if seen[parts[0]] {
			doubled++
			return
		}
		seen[parts[0]] = true
		late = append(late, now-int64(number(parts[1])))
		if len(seen) == count {
			done <- now
		}
	})
	fmt.Println("ready")
	last := <-done
	lock.Lock()
	slices.Sort(late)
	// The clocks of some count whole ms.
	early, _ := slices.BinarySearch(late, -1_000)
	at := func(part float64) int64 { return late[min(len(late)-1, int(float64(len(late))*part))] }
	say(map[string]any{"last": last, "p50": at(0.5), "p99": at(0.99), "max": at(1), "min": late[0],
		"early": early, "doubled": doubled})
}
