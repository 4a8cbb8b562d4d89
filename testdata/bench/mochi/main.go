// Command mochi runs the mochi-mqtt server with its own defaults and any
// client allowed, for the compare script.
//
//	mochi -listen 127.0.0.1:1883
package main

import (
	"flag"
	"io"
	"log"
	"log/slog"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

func main() {
	address := flag.String("listen", "127.0.0.1:1883", "where to listen")
	flag.Parse()
	server := mqtt.New(&mqtt.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := server.AddHook(new(open), nil); err != nil {
		log.Fatal(err)
	}
	if err := server.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: *address})); err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(); err != nil {
		log.Fatal(err)
	}
	select {}
}

// open lets every client do everything.
type open struct{ mqtt.HookBase }

func (open) ID() string { return "open" }

func (open) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck
}

func (open) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

func (open) OnACLCheck(*mqtt.Client, string, bool) bool { return true }
