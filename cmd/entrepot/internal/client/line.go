package client

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// farewell is how long the other side may take to close after a good-bye.
const farewell = 2 * time.Second

// line is what the two protocols have in common: a socket with one reader
// goroutine, frames that are answers, which a verb waits for, frames
// that are messages, which one handles, and a pulse that keeps it alive.
type line[F any] struct {
	conn    net.Conn
	timeout time.Duration

	write sync.Mutex

	answers  chan F
	messages chan F
	early    []F
	gone     chan struct{} // closed when the reader has ended
	err      error         // why; set before gone is closed
	closing  chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

func newLine[F any](c net.Conn, timeout time.Duration) *line[F] {
	return &line[F]{
		conn: c, timeout: timeout,
		answers: make(chan F, 16), messages: make(chan F),
		gone: make(chan struct{}), closing: make(chan struct{}),
	}
}

// start runs read until it fails, and calls pulse at every interval.
func (l *line[F]) start(read func() error, interval time.Duration, pulse func() error) {
	l.wg.Go(func() {
		for l.err == nil {
			l.err = read()
		}
		close(l.gone)
	})
	if interval > 0 {
		l.wg.Go(func() { l.beat(interval, pulse) })
	}
}

func (l *line[F]) beat(interval time.Duration, pulse func() error) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-l.gone:
			return
		case <-t.C:
			if pulse() != nil {
				return // the reader sees it too
			}
		}
	}
}

// answer hands an answer to the verb that waits, from the reader.
func (l *line[F]) answer(f F) {
	select {
	case l.answers <- f:
	case <-l.closing:
	}
}

// message hands a message over, from the reader, which waits meanwhile.
func (l *line[F]) message(f F) {
	select {
	case l.messages <- f:
	case <-l.closing:
	}
}

// await is the next answer. Messages that come before it are kept for next.
func (l *line[F]) await(ctx context.Context, to string) (answer F, err error) {
	t := time.NewTimer(l.timeout)
	defer t.Stop()
	for {
		select {
		case answer = <-l.answers:
			return answer, nil
		case m := <-l.messages:
			l.early = append(l.early, m)
		case <-l.gone:
			select {
			case answer = <-l.answers: // its last word
				return answer, nil
			default:
				return answer, l.err
			}
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-t.C:
			return answer, fmt.Errorf("%s: %w", to, ErrTimeout)
		}
	}
}

// next is the next message.
func (l *line[F]) next(ctx context.Context) (message F, err error) {
	if len(l.early) > 0 {
		message, l.early = l.early[0], l.early[1:]
		return message, nil
	}
	select {
	case message = <-l.messages:
		return message, nil
	case <-l.gone:
		return message, l.err
	case <-ctx.Done():
		return message, ctx.Err()
	}
}

// send writes whole frames, from any goroutine.
func (l *line[F]) send(b []byte) error {
	l.write.Lock()
	defer l.write.Unlock()
	if _, err := l.conn.Write(b); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// drain waits a moment for the other side to close, drops what comes, and
// returns how the reader ended.
func (l *line[F]) drain() error {
	l.once.Do(func() { close(l.closing) })
	t := time.NewTimer(farewell)
	defer t.Stop()
	select {
	case <-l.gone:
		return l.err
	case <-t.C:
		return nil
	}
}

// close ends the goroutines and waits for them.
func (l *line[F]) close() error {
	l.once.Do(func() { close(l.closing) })
	err := l.conn.Close()
	l.wg.Wait()
	return err
}
