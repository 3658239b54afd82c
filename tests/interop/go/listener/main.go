// A listener: calls functions with the messages of queues. Below it is its test, which
// tests/interop/listeners.py runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

type Message struct {
	Receipt, Payload string
	Attempt          int64
}

type Queue struct {
	Name      string
	OnMessage func(Message) error   // An error gives the message back.
	OnError   func(error, *Message) // Without a message: the broker did not answer.
	Places    int                   // So many messages at a time.
	Lease     time.Duration
}

type Listener struct {
	broker *redis.Client // Its ReadTimeout, 5 seconds, is longer than a take waits.
	queues []Queue
	stop   chan struct{}
	all    sync.WaitGroup
}

func NewListener(options *redis.Options) *Listener {
	return &Listener{broker: redis.NewClient(options), stop: make(chan struct{})}
}

func (l *Listener) Register(queue Queue) { l.queues = append(l.queues, queue) }

func (l *Listener) Start() {
	for _, queue := range l.queues {
		l.all.Go(func() { l.listen(queue) })
	}
}

// Stop returns when the last handler has ended, or after 2 seconds if none is at work.
func (l *Listener) Stop() {
	close(l.stop)
	l.all.Wait()
	l.broker.Close()
}

func (l *Listener) stopping() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *Listener) listen(queue Queue) {
	free := make(chan struct{}, queue.Places)
	for range queue.Places {
		free <- struct{}{}
	}
	for {
		place := <-free // Waits until there is one. Nobody else takes places.
		free <- place
		if l.stopping() {
			return
		}
		messages, err := l.take(queue, len(free))
		if err != nil {
			queue.OnError(err, nil)
			time.Sleep(time.Second)
		}
		for _, message := range messages {
			if l.stopping() {
				l.settle(queue, "DQ.NACK", message.Receipt, "SILENT")
				continue
			}
			<-free
			l.all.Go(func() {
				l.handle(queue, message)
				free <- place
			})
		}
	}
}

func (l *Listener) take(queue Queue, places int) (messages []Message, err error) {
	lease := queue.Lease.Milliseconds()
	args := []any{"DQ.TAKE", queue.Name, "COUNT", places, "BLOCK", "2s", "LEASE", lease}
	taken, err := l.broker.Do(context.Background(), args...).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	for _, one := range taken {
		fields := one.(map[any]any)
		receipt, payload := fields["receipt"].(string), fields["payload"].(string)
		messages = append(messages, Message{receipt, payload, fields["attempt"].(int64)})
	}
	return messages, err
}

func (l *Listener) handle(queue Queue, message Message) {
	done := make(chan struct{})
	l.all.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(queue.Lease / 3):
				l.send(queue, "DQ.EXTEND", message.Receipt, "LEASE", queue.Lease.Milliseconds())
			}
		}
	})
	if err := queue.OnMessage(message); err != nil {
		reason := err.Error()
		l.settle(queue, "DQ.NACK", message.Receipt, "REASON", reason[:min(len(reason), 512)])
		queue.OnError(err, &message)
	} else {
		l.settle(queue, "DQ.ACK", message.Receipt)
	}
	close(done)
}

func (l *Listener) settle(queue Queue, command, receipt string, options ...any) {
	for _, pause := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 0} {
		if l.send(queue, command, receipt, options...) { // It may be repeated.
			return
		}
		time.Sleep(pause)
	}
}

func (l *Listener) send(queue Queue, command, receipt string, options ...any) bool {
	args := append([]any{command, queue.Name, receipt}, options...)
	err := l.broker.Do(context.Background(), args...).Err()
	if err != nil {
		queue.OnError(err, nil)
	}
	return err == nil
}

func main() {
	listener := NewListener(&redis.Options{Addr: "localhost:" + os.Getenv("BROKER_PORT")})
	listener.Register(Queue{os.Getenv("QUEUE"), onMessage, onError, 4, 4 * time.Second})
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	listener.Start()
	<-terminated
	var stopped sync.WaitGroup
	stopped.Go(listener.Stop)
	<-listener.stop
	fmt.Println("stopping")
	stopped.Wait()
}

func onMessage(message Message) error {
	fmt.Println("begins", message.Payload, message.Attempt)
	pause := 20 * time.Millisecond
	if strings.HasPrefix(message.Payload, "slow") {
		pause = 6 * time.Second
	}
	time.Sleep(pause)
	if strings.HasPrefix(message.Payload, "fail") && message.Attempt == 1 {
		return errors.New("not yet")
	}
	fmt.Println("ends", message.Payload, message.Attempt)
	return nil
}

func onError(err error, message *Message) {
	payload := "-"
	if message != nil {
		payload = message.Payload
	}
	fmt.Println("fails", payload, err)
}
