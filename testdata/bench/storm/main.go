// Storm shows what a broker does when everybody comes back at once. It starts the
// broker with TLS, connects many MQTT clients with lasting sessions, cuts them all
// off, sends each a message meanwhile, and lets them come back within seconds,
// while other clients' messages flow and are counted in every tenth of a second:
//
//	go run ./testdata/bench/storm -clients 20000
//
// main.go is the run, broker.go the broker's process, crowd.go the processes of
// the clients that come back, flow.go the clients that stay, mqtt.go the packets.
//
// All of it is on one machine: the clients' half of the handshakes, which costs
// as much as the broker's, takes processors too. So the processes of the clients
// that come back have the lowest priority (nice 19), as on machines of their own
// they would take nothing from the broker.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

type options struct {
	clients int
	forks   int
	within  time.Duration
	rate    int
	pairs   int
	broker  string
	max     time.Duration
	json    bool
	nice    int
	fork    int
	address string
}

func parse() *options {
	o := &options{}
	flag.IntVar(&o.clients, "clients", 20_000, "clients that drop and come back")
	flag.IntVar(&o.forks, "forks", 2, "processes that they are in")
	flag.DurationVar(&o.within, "within", 5*time.Second, "time within which they come back")
	flag.IntVar(&o.rate, "rate", 2_000, "messages a second between those that stay")
	flag.IntVar(&o.pairs, "pairs", 10, "publishers and subscribers that stay")
	flag.StringVar(&o.broker, "broker", "", "the program; built from ./cmd/entrepot when empty")
	flag.DurationVar(&o.max, "max", 3*time.Minute, "the longest that a round may take")
	flag.BoolVar(&o.json, "json", false, "print the result as JSON")
	flag.IntVar(&o.nice, "nice", 19, "priority of the clients that come back")
	flag.IntVar(&o.fork, "fork", -1, "for the program's own use")
	flag.StringVar(&o.address, "address", "", "for the program's own use")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	var err error
	if o.fork >= 0 {
		err = crowdMain(o)
	} else {
		err = storm(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

// round is what one coming back was like.
type round struct {
	Handshakes string  // full or resumed
	Before     goodput // of the clients that stay
	During     goodput
	Percent    float64 // of Before
	Back       time.Duration
	Slowest    time.Duration // of one client, its tries in sum
	Tries      int           // that failed
	Lost       int           // sessions that were not there any more
	Messages   int           // that came, of one for each client
	Twice      int
}

type result struct {
	Clients, Forks int
	Within         time.Duration
	Connected      time.Duration // the first time, all at once too
	Rounds         []round
	PeakMiB        int
	Refused        []string
}

func storm(o *options) error {
	raiseFiles(uint64(o.clients) + 2_000)
	b, err := startBroker(o)
	if err != nil {
		return err
	}
	defer b.stop()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		b.stop()
		os.Exit(1)
	}()
	var crowds []*crowdProcess
	for i := range o.forks {
		c, err := startCrowd(o, b.tls, i)
		if err != nil {
			return err
		}
		defer c.stop()
		crowds = append(crowds, c)
	}
	f, err := startFlow(o, b.plain)
	if err != nil {
		return err
	}
	defer f.stop()
	r := result{Clients: o.clients, Forks: o.forks, Within: o.within}
	began := time.Now()
	if _, err := all(crowds, "connect full", o.max); err != nil {
		return err
	}
	r.Connected = time.Since(began)
	for _, handshakes := range []string{"full", "resumed"} {
		one, err := oneRound(o, b, f, crowds, handshakes)
		if err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, one)
	}
	r.PeakMiB, r.Refused = b.peak(), b.refused()
	return errors.Join(show(o, r), r.judge())
}

// judge is an error where the broker did not keep what it promises.
func (r result) judge() error {
	var errs []error
	for _, one := range r.Rounds {
		if one.Lost > 0 || one.Messages != r.Clients {
			errs = append(errs, fmt.Errorf("%s handshakes: %d sessions lost, %d of %d messages came", one.Handshakes, one.Lost, one.Messages, r.Clients))
		}
		if one.Percent < 80 {
			errs = append(errs, fmt.Errorf("%s handshakes: goodput fell to %.0f %%", one.Handshakes, one.Percent))
		}
	}
	return errors.Join(errs...)
}

// oneRound drops all, sends each a message and lets them come back.
func oneRound(o *options, b *broker, f *flow, crowds []*crowdProcess, handshakes string) (round, error) {
	r := round{Handshakes: handshakes}
	rest(3 * time.Second)
	f.mark()
	rest(5 * time.Second)
	r.Before = f.since()
	if _, err := all(crowds, "drop", o.max); err != nil {
		return r, err
	}
	if err := b.awaitConnections(2*o.pairs, o.max); err != nil {
		return r, err
	}
	if err := sendEach(o, b.plain); err != nil {
		return r, err
	}
	f.mark()
	began := time.Now()
	_, err := all(crowds, "connect "+handshakes, o.max)
	r.Back = time.Since(began)
	r.During = f.since()
	if err != nil {
		return r, err
	}
	r.Percent = 100 * r.During.Mean / r.Before.Mean
	// Messages may come a moment after the CONNACK.
	rest(2 * time.Second)
	got, err := all(crowds, "count", o.max)
	if err != nil {
		return r, err
	}
	for _, g := range got {
		r.Slowest = max(r.Slowest, g.Slowest)
		r.Tries += g.Tries
		r.Lost += g.Lost
		r.Messages += g.Messages
		r.Twice += g.Twice
	}
	return r, nil
}

func rest(d time.Duration) { <-time.After(d) }

func show(o *options, r result) error {
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("%d clients in %d processes, back within %v; first connected in %v\n",
		r.Clients, r.Forks, r.Within, r.Connected.Round(100*time.Millisecond))
	for _, one := range r.Rounds {
		fmt.Printf("%s handshakes:\n", one.Handshakes)
		fmt.Printf("  goodput before %v\n  goodput during %v: %.1f %%\n", one.Before, one.During, one.Percent)
		fmt.Printf("  all back after %v, the slowest took %v, %d tries failed\n", one.Back.Round(10*time.Millisecond),
			one.Slowest.Round(10*time.Millisecond), one.Tries)
		fmt.Printf("  sessions lost: %d; messages that waited: %d of %d, %d twice\n", one.Lost, one.Messages, r.Clients, one.Twice)
	}
	fmt.Printf("the broker's most memory: %d MiB\n", r.PeakMiB)
	for _, line := range r.Refused {
		fmt.Println(line)
	}
	return nil
}

// crowdProcess is one process of clients. It takes a line and answers with one.
type crowdProcess struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
	end func() error
}

func startCrowd(o *options, address string, i int) (*crowdProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-fork", fmt.Sprint(i), "-address", address, "-clients", fmt.Sprint(o.clients),
		"-forks", fmt.Sprint(o.forks), "-within", o.within.String(), "-max", o.max.String(), "-nice", fmt.Sprint(o.nice))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &crowdProcess{c, bufio.NewWriter(in), bufio.NewReader(out), in.Close}, c.Start()
}

func (c *crowdProcess) stop() {
	_ = c.end() // which ends it
	_ = c.cmd.Wait()
}

// all has every process do the same and waits for all.
func all(crowds []*crowdProcess, command string, most time.Duration) ([]tally, error) {
	for _, c := range crowds {
		if _, err := c.in.WriteString(command + "\n"); err != nil {
			return nil, err
		}
		if err := c.in.Flush(); err != nil {
			return nil, err
		}
	}
	watch := time.AfterFunc(most+10*time.Second, func() {
		for _, c := range crowds {
			_ = c.cmd.Process.Kill()
		}
	})
	defer watch.Stop()
	got := make([]tally, len(crowds))
	for i, c := range crowds {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: process %d: %w", command, i, err)
		}
		if err := json.Unmarshal(line, &got[i]); err != nil {
			return nil, err
		}
		if got[i].Error != "" {
			return nil, fmt.Errorf("%s: process %d: %s", command, i, got[i].Error)
		}
	}
	return got, nil
}
