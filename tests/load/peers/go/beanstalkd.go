package main

import (
	"errors"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// A connection for each goroutine, since a reserve that waits holds up its connection.
type beanstalkPeer struct{ address string }

func (one beanstalkPeer) dial() *beanstalk.Conn {
	conn, err := beanstalk.Dial("tcp", one.address)
	must(err)
	return conn
}

func (one beanstalkPeer) producer() func(string, time.Duration) error {
	tube := beanstalk.NewTube(one.dial(), queueName)
	return func(payload string, delay time.Duration) error {
		_, err := tube.Put([]byte(payload), 1, delay, 30*time.Second)
		return err
	}
}

func (one beanstalkPeer) work(handle func(string)) {
	for range concurrency {
		conn := one.dial()
		go func() {
			tubes := beanstalk.NewTubeSet(conn, queueName)
			for {
				id, payload, err := tubes.Reserve(time.Hour)
				if errors.Is(err, beanstalk.ErrTimeout) {
					continue
				}
				must(err)
				handle(string(payload))
				must(conn.Delete(id))
			}
		}()
	}
}
