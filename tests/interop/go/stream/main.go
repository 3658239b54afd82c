// A consumer of a stream with go-redis, which tests/interop/streams.py runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, queue := context.Background(), os.Getenv("QUEUE")
	broker := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("BROKER_PORT")})
	backing := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("REDIS_PORT")})
	fmt.Println("reads")
	for {
		read := &redis.XReadGroupArgs{Group: "g", Consumer: "worker", Count: 10,
			Streams: []string{queue, ">"}, Block: 2 * time.Second}
		streams, err := backing.XReadGroup(ctx, read).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			panic(err)
		}
		for _, stream := range streams {
			for _, entry := range stream.Messages {
				handle(ctx, broker, backing, queue, entry)
			}
		}
	}
}

func handle(ctx context.Context, broker, backing *redis.Client, queue string, entry redis.XMessage) {
	attempt, known := entry.Values["attempt"]
	if !known {
		attempt = "1"
	}
	payload := entry.Values["payload"]
	fmt.Println(payload, attempt)
	if attempt == "1" && payload == "die" {
		os.Exit(0)
	}
	var err error
	if attempt == "1" && payload == "back" {
		err = broker.Do(ctx, "DQ.NACK", queue, "GROUP", "g", entry.ID, "DELAY", 100).Err()
	} else {
		err = backing.XAck(ctx, queue, "g", entry.ID).Err()
	}
	if err != nil {
		panic(err)
	}
}
