package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

// With the settings that asynq has by itself; `interval` is another one between two looks for
// delayed tasks, where it is not 0.
type asynqPeer struct {
	address  string
	interval time.Duration
}

func (one asynqPeer) producer() func(string, time.Duration) error {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: one.address})
	return func(payload string, delay time.Duration) error {
		task := asynq.NewTask(queueName, []byte(payload))
		if delay == 0 {
			_, err := client.Enqueue(task)
			return err
		}
		_, err := client.Enqueue(task, asynq.ProcessIn(delay))
		return err
	}
}

func (one asynqPeer) work(handle func(string)) {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: one.address}, asynq.Config{
		Concurrency: concurrency, DelayedTaskCheckInterval: one.interval, LogLevel: asynq.ErrorLevel,
	})
	must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		handle(string(task.Payload()))
		return nil
	})))
}
