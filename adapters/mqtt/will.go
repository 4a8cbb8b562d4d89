package mqtt

import (
	"unicode/utf8"

	"entrepot/core"

	"github.com/mochi-mqtt/server/v2/packets"
)

// will makes the message that is published when the connection is lost
// (3.1.2.5). Its rights are checked by the core when it is published.
func (c *conn) will(p *packets.Packet, got *brought) (*core.Will, error) {
	w := &p.Connect
	if int(w.WillQos) > c.server.cfg.MaxQoS { // [MQTT-3.2.2-12]
		return nil, faultf(badQoS, "QoS %d of the will", w.WillQos)
	}
	topic, delay, err := delayedTopic(w.WillTopic)
	if err != nil {
		return nil, err
	}
	a, err := publishAddress(topic)
	if err != nil {
		return nil, err
	}
	if delay > 0 {
		got.fields().Delay = delay
	}
	m := core.NewMessage(len(w.WillPayload))
	copy(m.Payload, w.WillPayload)
	m.Exchange, m.Topic, m.Retain = a.Exchange, a.Topic, w.WillRetain
	m.Guarantee = guarantee(w.WillQos)
	out := &core.Will{Message: m}
	if got.refused != nil {
		return nil, got.refused
	}
	if got.props != nil && got.props.Text && !utf8.Valid(m.Payload) { // 3.1.3.2.3
		return nil, faultf(badPayload, "the will's payload is not UTF-8")
	}
	m.Props, out.Delay = got.props, got.delay
	m.Retain = m.Retain || got.retain
	return out, nil
}
