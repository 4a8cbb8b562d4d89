package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// tally is what a process of clients saw.
type tally struct {
	Slowest                      time.Duration
	Tries, Lost, Messages, Twice int
	Error                        string
}

// client is one of those that drop and come back.
type client struct {
	id     string
	cache  tls.ClientSessionCache
	known  bool
	conn   net.Conn
	took   time.Duration
	tries  int
	lost   bool
	got    atomic.Int32
	closed chan struct{} // when nobody reads any more
}

type crowd struct {
	o       *options
	clients []*client
}

// crowdMain is a process of clients: it does what standard input says, until
// that ends.
func crowdMain(o *options) error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, o.nice); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	c := &crowd{o: o}
	for i := o.fork; i < o.clients; i += o.forks {
		c.clients = append(c.clients, &client{id: fmt.Sprintf("storm-%d", i)})
	}
	commands, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for commands.Scan() {
		verb, rest, _ := strings.Cut(commands.Text(), " ")
		t := tally{}
		switch verb {
		case "connect":
			if err := c.connect(rest == "resumed"); err != nil {
				t.Error = err.Error()
			}
		case "drop":
			c.drop()
		case "count":
			t = c.count()
		}
		if err := answers.Encode(t); err != nil {
			return err
		}
	}
	c.drop()
	return commands.Err()
}

// connect lets all come, each at some time within o.within.
func (c *crowd) connect(resumed bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.o.max)
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for _, one := range c.clients {
		wg.Go(func() {
			if !resumed || one.cache == nil {
				one.cache = tls.NewLRUClientSessionCache(1)
			}
			rest(rand.N(c.o.within))
			if err := one.come(ctx, c.o); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// come tries until the client is in.
func (c *client) come(ctx context.Context, o *options) error {
	began := time.Now()
	c.tries, c.lost = 0, false
	c.got.Store(0)
	for {
		err := c.try(ctx, o)
		if err == nil {
			c.took = time.Since(began)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %d tries: %w", c.id, c.tries, err)
		}
		c.tries++
		rest(time.Second + rand.N(time.Second))
	}
}

func (c *client) try(ctx context.Context, o *options) error {
	source := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+o.fork))}
	d := net.Dialer{LocalAddr: source, Timeout: time.Minute}
	bare, err := d.DialContext(ctx, "tcp", o.address)
	if err != nil {
		return err
	}
	// It is the cost that counts, not who the broker is.
	conn := tls.Client(bare, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: c.cache, ServerName: "localhost"})
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	r := bufio.NewReaderSize(conn, 256)
	present, err := greet(conn, r, c.id, true)
	if err == nil && !c.known {
		err = subscribe(conn, r, "storm/"+c.id, 1)
	}
	if err != nil {
		_ = bare.Close()
		return err
	}
	c.lost, c.known = c.known && !present, true
	_ = conn.SetDeadline(time.Time{})
	c.conn, c.closed = bare, make(chan struct{})
	go c.read(conn, r)
	return nil
}

// read takes messages until the connection ends.
func (c *client) read(conn net.Conn, r *bufio.Reader) {
	defer close(c.closed)
	for {
		first, body, err := readPacket(r)
		if err != nil {
			return
		}
		if first&0xF6 != 0x32 { // QoS 1
			continue
		}
		c.got.Add(1)
		at := 2 + int(body[0])<<8 + int(body[1])
		if _, err := conn.Write([]byte{0x40, 2, body[at], body[at+1]}); err != nil {
			return
		}
	}
}

// drop cuts all off, without a word.
func (c *crowd) drop() {
	for _, one := range c.clients {
		if one.conn != nil {
			if t, ok := one.conn.(*net.TCPConn); ok {
				_ = t.SetLinger(0)
			}
			_ = one.conn.Close()
		}
	}
	for _, one := range c.clients {
		if one.conn != nil {
			<-one.closed
			one.conn = nil
		}
	}
}

func (c *crowd) count() (t tally) {
	for _, one := range c.clients {
		t.Slowest = max(t.Slowest, one.took)
		t.Tries += one.tries
		if one.lost {
			t.Lost++
		}
		if n := int(one.got.Load()); n > 0 {
			t.Messages++
			t.Twice += n - 1
		}
	}
	return t
}
