package conf

import "entrepot/adapters"

// checkListeners looks at each address.
func (c Config) checkListeners() error {
	return adapters.ListenConfigs{
		{Section: "mqtt", Listen: c.MQTT.Listen},
		{Section: "stomp", Listen: c.STOMP.Listen},
		{Section: "amqp", Listen: c.AMQP.Listen},
		{Section: "coap", Listen: c.CoAP.Listen, Packets: true, Keys: c.CoAP.PSKFile != "" || c.asksWho()},
		{Section: "http", Listen: c.HTTP.Listen},
	}.Validate(c.TLS, c.Proxy, c.asksWho())
}

// asksWho tells whether clients have to prove who they are.
func (c Config) asksWho() bool { return c.Auth.Users != "" }
