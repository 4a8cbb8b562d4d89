package bench

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	stompserver "github.com/go-stomp/stomp/v3/server"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

// allowed lets every client do everything.
type allowed struct{ mochi.HookBase }

func (allowed) ID() string { return "allowed" }
func (allowed) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}
func (allowed) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (allowed) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A broker by other hands takes what the tool writes, at every QoS and in both
// versions.
func TestAgainstMochi(t *testing.T) {
	l := listen(t)
	server := mochi.New(&mochi.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := server.AddHook(new(allowed), nil); err != nil {
		t.Fatal(err)
	}
	if err := server.AddListener(listeners.NewNet("tcp", l)); err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, version := range []string{"3.1.1", "5"} {
		for qos := range 3 {
			t.Run(fmt.Sprintf("MQTT %s QoS %d", version, qos), func(t *testing.T) {
				o := against("mqtt://user:word@" + l.Addr().String())
				o.MQTTVersion, o.QoS = version, qos
				expectAll(t, o)
			})
		}
	}
}

// The same for STOMP, to topics and to queues. That server breaks down over
// acknowledgements, so they are left out.
func TestAgainstGoStomp(t *testing.T) {
	l := listen(t)
	defer l.Close()
	server := stompserver.Server{Log: silent{}}
	go server.Serve(l) // it has no end of its own
	for destination, version := range map[string]string{"topic": "1.2", "queue": "1.1"} {
		t.Run(destination+" over STOMP "+version, func(t *testing.T) {
			o := against("stomp://user:word@" + l.Addr().String())
			o.Destination, o.STOMPVersion = destination, version
			o.Receipts = destination == "queue"
			expectAll(t, o)
		})
	}
}

func against(url string) Options {
	o := DefaultOptions()
	o.Publish = url
	o.Subscribe = url
	o.Procs = 0
	o.Messages = 300
	o.Publishers, o.Subscribers = 2, 2
	o.Window = 100
	o.Stall = 10 * time.Second
	return o
}

func expectAll(t *testing.T, o Options) {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != 600 || r.Delivered != 600 || r.Lost+r.Twice+r.OutOfOrder+r.Unacked+r.Refused+r.Stalls != 0 {
		t.Errorf("%+v", r)
	}
}

// silent is a log of go-stomp that says nothing.
type silent struct{}

func (silent) Debugf(string, ...any)   {}
func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}
func (silent) Errorf(string, ...any)   {}
func (silent) Debug(string)            {}
func (silent) Info(string)             {}
func (silent) Warning(string)          {}
func (silent) Error(string)            {}
