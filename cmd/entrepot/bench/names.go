package bench

import (
	"strconv"
	"strings"
)

// destinations are the styles of STOMP destination: what stands before the
// name, and whether it is a queue, which an MQTT side reaches by $queue/.
var destinations = map[string]struct {
	prefix string
	queue  bool
}{
	"topic":     {"/topic/", false},
	"queue":     {"/queue/", true},
	"amq-queue": {"/amq/queue/", true},
	"exchange":  {"/exchange/amq.topic/", false},
}

// nameOf is the i-th name of a run, in MQTT's spelling.
func (o *Options) nameOf(i int) string { return o.Topic + "/" + strconv.Itoa(i) }

// mqttTopic is where the MQTT side sends and listens. A queue's name is one
// level, with dots.
func (o *Options) mqttTopic(name string) string {
	if destinations[o.Destination].queue {
		return "$queue/" + strings.ReplaceAll(name, "/", ".")
	}
	return name
}

// stompDestination is the same for the STOMP side.
func (o *Options) stompDestination(name string) string {
	dotted := strings.ReplaceAll(name, "/", ".")
	if strings.Contains(o.Destination, "{}") {
		return strings.ReplaceAll(o.Destination, "{}", dotted)
	}
	return destinations[o.Destination].prefix + dotted
}
