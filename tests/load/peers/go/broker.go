package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Delay Broker by go-redis: one goroutine takes as many as there are free places, and each handler
// acknowledges its message.
type brokerPeer struct{ client *redis.Client }

func newBrokerPeer(address string) peer {
	return brokerPeer{redis.NewClient(&redis.Options{
		Addr: address, Protocol: 3, PoolSize: concurrency + 1, ReadTimeout: 10 * time.Second,
	})}
}

func (one brokerPeer) producer() func(string, time.Duration) error {
	return func(payload string, delay time.Duration) error {
		return one.client.Do(context.Background(), "DQ.OFFER", queueName, delay.Milliseconds(),
			payload).Err()
	}
}

func (one brokerPeer) work(handle func(string)) {
	ctx := context.Background()
	free := make(chan struct{}, concurrency)
	for range concurrency {
		free <- struct{}{}
	}
	go func() {
		for {
			<-free
			places := 1 + len(free)
			for range places - 1 {
				<-free
			}
			taken, err := one.client.Do(ctx, "DQ.TAKE", queueName, "COUNT", places, "BLOCK", "2s").Slice()
			if errors.Is(err, redis.Nil) {
				taken = nil
			} else {
				must(err)
			}
			for range places - len(taken) {
				free <- struct{}{}
			}
			for _, each := range taken {
				message := each.(map[any]any)
				go func() {
					handle(message["payload"].(string))
					must(one.client.Do(ctx, "DQ.ACK", queueName, message["receipt"]).Err())
					free <- struct{}{}
				}()
			}
		}
	}()
}
