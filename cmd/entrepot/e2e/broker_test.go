package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"entrepot/adapters"
	"entrepot/adapters/amqp"
	"entrepot/adapters/coap"
	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/adapters/wamp"
	"entrepot/core"
	"entrepot/core/local"
)

// broker is a whole broker in this process: engine, core and front-ends,
// wired as the program does.
type broker struct {
	core  *core.Broker
	mqtt  *mqtt.Server
	stomp *stomp.Server
	amqp  *amqp.Server
	wamp  *wamp.Server
	coap  *coap.Server
	udp   *coapNet // coap's
	dtls  *coapNet
}

// settings are what a scenario may change.
type settings struct {
	mqtt  mqtt.Config
	stomp stomp.Config
	// arguments of all named queues, by a policy
	arguments map[string]any
	// engine is one in memory when it is nil.
	engine core.Engine
}

// set changes one setting, from a script's word.
func (s *settings) set(word string) error {
	if argument, ok := strings.CutPrefix(word, "policy."); ok {
		name, value, _ := strings.Cut(argument, "=")
		if s.arguments == nil {
			s.arguments = map[string]any{}
		}
		s.arguments[name] = value
		return nil
	}
	switch word {
	case "mqtt.origin_property":
		s.mqtt.OriginProperty = true
	case "stomp.topic_separator=/":
		s.stomp.TopicSeparator = "/"
	default:
		return fmt.Errorf("no setting %q", word)
	}
	return nil
}

// startBroker starts a broker with default settings and no listener.
func startBroker(t *testing.T) *broker {
	t.Helper()
	return newBroker(settings{mqtt: mqtt.DefaultConfig(), stomp: stomp.DefaultConfig()})
}

func newBroker(s settings) *broker {
	log := slog.New(slog.DiscardHandler)
	var options []local.Option
	if s.arguments != nil {
		policies, err := core.NewPolicies(core.PolicyConfigs{{Name: "script", Pattern: ".", Arguments: s.arguments}})
		if err != nil {
			panic("scenario: " + err.Error()) // a fault of the script
		}
		options = append(options, local.WithPolicies(policies))
	}
	if s.engine == nil {
		s.engine = local.New(log, options...)
	}
	b := &broker{core: core.NewBroker(core.DefaultConfig(), "/", s.engine, nil, log)}
	realms := core.NewRealms(b.core)
	b.mqtt = mqtt.New(s.mqtt, realms, log)
	b.stomp = stomp.New(s.stomp, realms, log)
	b.amqp = amqp.New(amqp.DefaultConfig(), realms, log)
	b.wamp = wamp.New(wamp.DefaultConfig(), adapters.DefaultWebSocketConfig(), realms, log)
	b.coap, b.udp, b.dtls = coap.New(coap.DefaultConfig(), realms, log), newCoAPNet(5683), newCoAPNet(5684)
	_ = b.coap.Serve(b.udp) // it is not shut down
	_ = b.coap.ServeDTLS(b.dtls, adapters.Address{Name: "dtls"}, nil)
	return b
}

// stop ends it in the program's order: front-ends, then the core.
func (b *broker) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.mqtt.Shutdown(ctx); err != nil {
		t.Errorf("stopping MQTT: %v", err)
	}
	if err := b.stomp.Shutdown(ctx); err != nil {
		t.Errorf("stopping STOMP: %v", err)
	}
	if err := b.amqp.Shutdown(ctx); err != nil {
		t.Errorf("stopping AMQP: %v", err)
	}
	if err := b.wamp.Shutdown(ctx); err != nil {
		t.Errorf("stopping WAMP: %v", err)
	}
	if err := b.coap.Shutdown(ctx); err != nil {
		t.Errorf("stopping CoAP: %v", err)
	}
	b.core.Close()
}

// dialMQTT connects by a pipe.
func (b *broker) dialMQTT() net.Conn {
	here, there := net.Pipe()
	b.mqtt.ServeConn(there)
	return here
}

// dialAMQP connects by a pipe.
func (b *broker) dialAMQP() net.Conn {
	here, there := net.Pipe()
	b.amqp.ServeConn(there)
	return here
}

// dialSTOMP connects by a pipe.
func (b *broker) dialSTOMP() net.Conn {
	here, there := net.Pipe()
	b.stomp.ServeConn(there)
	return here
}

// dialWAMP connects by a pipe that carries the frames of a WebSocket.
func (b *broker) dialWAMP(sub string) net.Conn {
	here, there := net.Pipe()
	b.wamp.ServeFrames(there, sub, nil)
	return here
}

// listen opens both front-ends on free ports of the loopback and returns their
// addresses.
func (b *broker) listen(t *testing.T) (mqttAddr, stompAddr string) {
	t.Helper()
	open := func(serve func(net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := serve(l); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	return open(b.mqtt.Serve), open(b.stomp.Serve)
}
