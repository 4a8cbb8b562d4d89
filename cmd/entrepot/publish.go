package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/cmd/entrepot/internal/client"
)

// publishing is what `entrepot pub` was told.
type publishing struct {
	connection
	message client.Message
	file    string
	lines   bool
	empty   bool
	headers []string
}

func publishCommand() *cobra.Command {
	var p publishing
	c := &cobra.Command{
		Use:   "pub URL [PAYLOAD]",
		Short: "Send messages to an MQTT or STOMP broker",
		Long: `Send messages to a broker, this one or any other, and wait until it has taken
them.

URL is mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC or
stomp://[USER[:PASSWORD]@]HOST[:PORT]/DESTINATION; mqtts:// and stomps:// are the same
over TLS (--cafile, --cert, --key). What follows the host is taken as it stands:
nothing in it is decoded. Quote it where it holds a $.

A password in the URL can be seen by others on this machine. Without one there,
the variable ENTREPOT_PASSWORD has it, or --token FILE a token (entrepot token).

The payload is the argument, a file (--file), each line of one (--lines), or
empty (--empty).`,
		Example: `  entrepot pub mqtt://127.0.0.1:1883/plant/7/temp 21.5
  entrepot pub -q 1 -r mqtt://127.0.0.1/plant/7/state on
  entrepot pub 'mqtt://127.0.0.1/$queue/orders' --file order.json --content-type application/json
  entrepot pub stomp://127.0.0.1:61613/queue/orders -H persistent:true 'order 4711'
  tail -f readings | entrepot pub stomp://127.0.0.1/topic/readings --lines`,
		Args: urlAnd(1),
	}
	f := c.Flags()
	f.IntVarP(&p.message.QoS, "qos", "q", 0, "MQTT quality of service `N`, 0 to 2")
	f.BoolVarP(&p.message.Retain, "retain", "r", false, "keep it as the topic's last value")
	f.StringVarP(&p.file, "file", "f", "", "payload from `FILE`, - for standard input")
	f.BoolVarP(&p.lines, "lines", "l", false, "one message for each line of the file, or of standard input")
	f.BoolVarP(&p.empty, "empty", "n", false, "an empty payload; with --retain it clears the last value")
	f.StringVar(&p.message.ContentType, "content-type", "", "what the payload is: `TYPE`, such as application/json")
	f.StringArrayVarP(&p.headers, "header", "H", nil, "`NAME:VALUE` as STOMP header or MQTT 5 user property (repeatable)")
	p.flags(c, "publish to `TOPIC` instead of the URL's")
	c.RunE = func(c *cobra.Command, args []string) error { return p.run(c, args) }
	return c
}

func (p *publishing) run(c *cobra.Command, args []string) error {
	u, err := p.check(c, args)
	if err != nil {
		return usage(err)
	}
	next, done, err := p.payloads(c, args[1:])
	if err != nil {
		return err
	}
	defer done()
	conn, err := p.dial(c, u)
	if err != nil {
		return err
	}
	return finish(p.sendAll(c.Context(), conn, next), conn)
}

func (p *publishing) check(c *cobra.Command, args []string) (u client.URL, err error) {
	if u, err = p.url(c, args[0]); err != nil {
		return u, err
	}
	if p.message.Headers, err = parseHeaders(p.headers); err != nil {
		return u, err
	}
	if err = p.checkTopic(u); err != nil {
		return u, err
	}
	if err = p.checkPayload(len(args) == 2); err != nil {
		return u, err
	}
	headers := p.message.ContentType != "" || len(p.headers) > 0
	switch {
	case p.token == "-" && p.fromInput():
		return u, errors.New("--token -: the payload comes from the input already")
	case p.message.QoS < 0 || p.message.QoS > 2:
		return u, fmt.Errorf("--qos %d: 0, 1 or 2", p.message.QoS)
	case headers && u.Protocol == client.MQTT && p.options.Version == "3.1.1":
		return u, errors.New("MQTT 3.1.1 carries neither headers nor a content type; MQTT 5 does")
	}
	return u, p.notForSTOMP(c, u, "qos")
}

// fromInput tells whether payloads come from standard input.
func (p *publishing) fromInput() bool { return p.file == "-" || p.lines && p.file == "" }

// checkTopic finds the one topic to publish to.
func (p *publishing) checkTopic(u client.URL) error {
	all := p.topics
	if u.Topic != "" {
		all = append(all, u.Topic)
	}
	switch {
	case len(all) == 0:
		return errNoTopic
	case len(all) > 1:
		return errors.New("more than one topic: the URL's, or one --topic")
	case u.Protocol == client.MQTT && strings.ContainsAny(all[0], "+#"):
		return fmt.Errorf("topic %s: + and # are for subscribing", all[0])
	}
	p.message.Topic = all[0]
	return nil
}

// checkPayload sees to it that there is one source.
func (p *publishing) checkPayload(argument bool) error {
	sources := 0
	for _, given := range []bool{argument, p.lines || p.file != "", p.empty} {
		if given {
			sources++
		}
	}
	switch sources {
	case 0:
		return errors.New("no payload: an argument, --file, --lines or --empty")
	case 1:
		return nil
	}
	return errors.New("more than one payload: an argument, --file or --lines, or --empty")
}

// payloads returns a function that yields one payload after the other and ends
// with io.EOF.
func (p *publishing) payloads(c *cobra.Command, args []string) (next func() ([]byte, error), done func(), err error) {
	if len(args) == 1 || p.empty {
		payload := []byte(strings.Join(args, ""))
		return once(func() ([]byte, error) { return payload, nil }), func() {}, nil
	}
	in, done := c.InOrStdin(), func() {}
	if p.file != "" && p.file != "-" {
		f, err := os.Open(p.file)
		if err != nil {
			return nil, nil, fmt.Errorf("payload: %w", err)
		}
		in, done = f, func() { _ = f.Close() } // only read from
	}
	if p.lines {
		return lines(in), done, nil
	}
	return once(func() ([]byte, error) { return io.ReadAll(in) }), done, nil
}

// once yields what read returns, one time.
func once(read func() ([]byte, error)) func() ([]byte, error) {
	done := false
	return func() ([]byte, error) {
		if done {
			return nil, io.EOF
		}
		done = true
		return read()
	}
}

// lines yields lines without their ends; a last one need not have any.
func lines(in io.Reader) func() ([]byte, error) {
	r := bufio.NewReader(in)
	return func() ([]byte, error) {
		line, err := r.ReadBytes('\n')
		if err == nil {
			return line[:len(line)-1], nil
		}
		if err == io.EOF && len(line) > 0 {
			return line, nil
		}
		return nil, err
	}
}

// sendAll sends what next yields. An input that says nothing does not keep it
// from ending with ctx.
func (p *publishing) sendAll(ctx context.Context, conn client.Conn, next func() ([]byte, error)) error {
	type payload struct {
		bytes []byte
		err   error
	}
	payloads := make(chan payload)
	go func() {
		for {
			b, err := next()
			select {
			case payloads <- payload{b, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		var in payload
		select {
		case in = <-payloads:
		case <-ctx.Done():
			return ctx.Err()
		}
		if in.err == io.EOF {
			return nil
		}
		if in.err != nil {
			return fmt.Errorf("payload: %w", in.err)
		}
		p.message.Payload = in.bytes
		if err := conn.Publish(ctx, p.message); err != nil {
			return err
		}
	}
}
