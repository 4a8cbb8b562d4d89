package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"entrepot/cmd/entrepot/internal/client"
)

// maxPrefetch bounds what a subscriber that counts takes from a queue ahead:
// what it does not come to goes back, as a redelivery.
const maxPrefetch = 32

// subscribing is what `entrepot sub` was told.
type subscribing struct {
	connection
	interest client.Interest
	count    int
	wait     time.Duration
	headers  []string
	printer
}

func subscribeCommand() *cobra.Command {
	var s subscribing
	c := &cobra.Command{
		Use:   "sub URL",
		Short: "Print the messages of an MQTT or STOMP broker",
		Long: `Subscribe at a broker, this one or any other, and print each message's payload
and a line end. A message is acknowledged once it is printed.

URL is mqtt://[USER[:PASSWORD]@]HOST[:PORT]/FILTER or
stomp://[USER[:PASSWORD]@]HOST[:PORT]/DESTINATION; mqtts:// and stomps:// are the same
over TLS (--cafile, --cert, --key). What follows the host is taken as it stands:
nothing in it is decoded, # and ? are themselves. Quote it where it holds a $ or a *.

A password in the URL can be seen by others on this machine. Without one there,
the variable ENTREPOT_PASSWORD has it, or --token FILE a token (entrepot token).

The exit code is 0 when --count messages came, or without --count when it was
interrupted or --wait passed; 1 otherwise.`,
		Example: `  entrepot sub 'mqtt://127.0.0.1:1883/plant/#'
  entrepot sub -v -C 10 -W 5s mqtt://127.0.0.1/plant/+/temp
  entrepot sub 'mqtt://127.0.0.1/$queue/orders' -q 1
  entrepot sub -t 'a/#' -t 'b/#' mqtt://127.0.0.1
  entrepot sub 'stomp://127.0.0.1:61613/topic/plant.*.temp' --json`,
		Args: urlAnd(0),
	}
	f := c.Flags()
	f.IntVarP(&s.interest.QoS, "qos", "q", 0, "MQTT quality of service `N`, 0 to 2")
	f.IntVarP(&s.count, "count", "C", 0, "end after `N` messages")
	f.DurationVarP(&s.wait, "wait", "W", 0, "end after `TIME`, such as 10s or 1m30s")
	f.BoolVarP(&s.topic, "verbose", "v", false, "print the topic and a blank before the payload")
	f.BoolVarP(&s.raw, "no-newline", "N", false, "print no line end: the payloads' bytes and nothing else")
	f.BoolVar(&s.json, "json", false, "print each message, with its headers, as one line of JSON")
	f.BoolVarP(&s.interest.NoRetained, "no-retained", "R", false, "leave out what was retained before (MQTT)")
	f.StringArrayVarP(&s.headers, "header", "H", nil, "`NAME:VALUE` as header or user property of the subscription (repeatable)")
	f.StringVarP(&s.options.ID, "id", "i", "", "MQTT client `ID`")
	f.DurationVar(&s.options.Expiry, "expiry", 0, "keep the MQTT session of --id for `TIME`, and resume it")
	s.flags(c, "subscribe to `TOPIC`, with or instead of the URL's (repeatable)")
	c.RunE = func(c *cobra.Command, args []string) error { return s.run(c, args) }
	return c
}

func (s *subscribing) run(c *cobra.Command, args []string) error {
	u, err := s.check(c, args[0])
	if err != nil {
		return usage(err)
	}
	s.options.Prefetch = min(s.count, maxPrefetch)
	conn, err := s.dial(c, u)
	if err != nil {
		return err
	}
	ctx := c.Context()
	if s.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.wait)
		defer cancel()
	}
	s.out = bufio.NewWriter(c.OutOrStdout())
	seen := 0
	err = conn.Subscribe(ctx, s.interest,
		func() { s.note(c, "subscribed to "+strings.Join(s.interest.Topics, ", ")) },
		func(m client.Message) (bool, error) {
			seen++
			return seen == s.count, s.print(m)
		})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
		if s.count > 0 {
			err = fmt.Errorf("ended with %d of %d messages", seen, s.count)
		}
	}
	return finish(err, conn)
}

func (s *subscribing) check(c *cobra.Command, text string) (u client.URL, err error) {
	if u, err = s.url(c, text); err != nil {
		return u, err
	}
	if s.interest.Headers, err = parseHeaders(s.headers); err != nil {
		return u, err
	}
	if u.Topic != "" {
		s.interest.Topics = append(s.interest.Topics, u.Topic)
	}
	s.interest.Topics = append(s.interest.Topics, s.topics...)
	switch {
	case len(s.interest.Topics) == 0:
		return u, errNoTopic
	case s.json && (s.topic || s.raw):
		return u, errors.New("--json prints the topic itself, and lines")
	case len(s.headers) > 0 && u.Protocol == client.MQTT && s.options.Version == "3.1.1":
		return u, errors.New("MQTT 3.1.1 carries no headers; MQTT 5 does")
	}
	if err := s.checkNumbers(); err != nil {
		return u, err
	}
	return u, s.notForSTOMP(c, u, "qos", "no-retained", "id", "expiry")
}

func (s *subscribing) checkNumbers() error {
	switch {
	case s.interest.QoS < 0 || s.interest.QoS > 2:
		return fmt.Errorf("--qos %d: 0, 1 or 2", s.interest.QoS)
	case s.count < 0 || s.wait < 0 || s.options.Expiry < 0:
		return errors.New("--count, --wait, --expiry: not negative")
	case s.options.Expiry > 0 && s.options.ID == "":
		return errors.New("--expiry keeps a session, which is found again by --id")
	}
	return nil
}

// printer writes messages.
type printer struct {
	topic, raw, json bool
	out              *bufio.Writer
}

// printed is a message as a line of JSON.
type printed struct {
	Topic       string      `json:"topic"`
	Payload     *string     `json:"payload,omitempty"`
	Base64      []byte      `json:"payload_base64,omitempty"` // when it is not UTF-8
	QoS         int         `json:"qos"`
	Retain      bool        `json:"retain"`
	ContentType string      `json:"content_type,omitempty"`
	Headers     [][2]string `json:"headers"`
}

// print writes one message to its last byte.
func (p *printer) print(m client.Message) error {
	if p.json {
		return errors.Join(p.printJSON(m), p.out.Flush())
	}
	if p.topic {
		p.out.WriteString(m.Topic) // errors stay with the writer until Flush
		p.out.WriteByte(' ')
	}
	p.out.Write(m.Payload)
	if !p.raw {
		p.out.WriteByte('\n')
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (p *printer) printJSON(m client.Message) error {
	line := printed{Topic: m.Topic, QoS: m.QoS, Retain: m.Retain, ContentType: m.ContentType, Headers: [][2]string{}}
	if utf8.Valid(m.Payload) {
		text := string(m.Payload)
		line.Payload = &text
	} else {
		line.Base64 = m.Payload
	}
	for _, h := range m.Headers {
		line.Headers = append(line.Headers, [2]string{h.Name, h.Value})
	}
	e := json.NewEncoder(io.Writer(p.out))
	e.SetEscapeHTML(false)
	return e.Encode(line)
}
