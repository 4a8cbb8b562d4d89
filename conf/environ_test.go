package conf

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEnvironment(t *testing.T) {
	file := write(t, "[mqtt]\nlisten = [\"127.0.0.1:7777\"]\n[log]\nlevel = \"warn\"\n")
	c, err := Load(file, []string{
		"HOME=/root", "PATH",
		"ENTREPOT_MQTT_LISTEN=127.0.0.1:1884, unix:/run/m.sock",
		"ENTREPOT_MQTT_LIMITS_LOGIN_TIMEOUT=3s",
		"ENTREPOT_MQTT_ORIGIN_PROPERTY=true",
		"ENTREPOT_BROKER_MAX_MESSAGE=2MiB",
		"ENTREPOT_BROKER_MAX_RETAINED=12",
		"ENTREPOT_LOG_FORMAT=json",
		"ENTREPOT_STOMP_LISTEN=", // as not set
		"ENTREPOT_HTTP_LISTEN=off",
		"ENTREPOT_VERSION=1", "ENTREPOTMQTT_X=1", // none of ours
	})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.MQTT.Listen = []string{"127.0.0.1:1884", "unix:/run/m.sock"}
	want.MQTT.Limits.LoginTimeout = 3 * time.Second
	want.MQTT.OriginProperty = true
	want.Broker.MaxMessage, want.Broker.MaxRetained = 2<<20, 12
	want.Log = Log{Level: "warn", Format: "json"}
	want.HTTP.Listen = []string{"off"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
}

func TestBadEnvironment(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"ENTREPOT_MQTT_LISTN=x", "ENTREPOT_MQTT_LISTN: sets no key; is ENTREPOT_MQTT_LISTEN meant?"},
		{"ENTREPOT_MQTT_FROBNICATE=", "ENTREPOT_MQTT_FROBNICATE: sets no key"},
		{"ENTREPOT_MQTT_LIMITS_LINGER=5", `ENTREPOT_MQTT_LIMITS_LINGER: wants a time such as "10s" or "1m30s", not "5"`},
		{"ENTREPOT_MQTT_ORIGIN_PROPERTY=perhaps", `ENTREPOT_MQTT_ORIGIN_PROPERTY: wants true or false, not "perhaps"`},
		{"ENTREPOT_BROKER_MAX_MESSAGE=much", `ENTREPOT_BROKER_MAX_MESSAGE: wants a whole number, or one such as "16MiB", not "much"`},
	} {
		_, err := Load("", []string{c.line})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.line, err, c.want)
		}
	}
	_, err := Load("", []string{"ENTREPOT_LOG_X=1", "ENTREPOT_HTTP_Y=1"})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not every fault is told: %v", err)
	}
}

// Container software sets variables for each service that it knows; a service
// called "entrepot" or "entrepot-mqtt" must not keep the broker from starting.
func TestVariablesOfLinkedServices(t *testing.T) {
	for _, name := range []string{
		"ENTREPOT_SERVICE_HOST", "ENTREPOT_PORT", "ENTREPOT_PORT_1883_TCP",
		"ENTREPOT_MQTT_SERVICE_HOST", "ENTREPOT_MQTT_SERVICE_PORT", "ENTREPOT_MQTT_SERVICE_PORT_MQTT", "ENTREPOT_MQTT_PORT",
		"ENTREPOT_MQTT_PORT_1883_TCP", "ENTREPOT_MQTT_PORT_1883_TCP_ADDR", "ENTREPOT_MQTT_PORT_1883_TCP_PROTO",
	} {
		if _, err := Load("", []string{name + "=tcp://10.0.0.1:1883"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := DefaultConfig()
	for _, s := range c.settings() {
		if linked.MatchString(s.variable()) {
			t.Errorf("%s cannot be told from such a variable", s.key())
		}
	}
}

func TestVariablesAreDifferent(t *testing.T) {
	c := DefaultConfig()
	seen := map[string]string{}
	for _, s := range c.settings() {
		if other := seen[s.variable()]; other != "" {
			t.Errorf("%s and %s are both %s", other, s.key(), s.variable())
		}
		seen[s.variable()] = s.key()
	}
}

// Every kind of field that the packages use can be set from a text.
func TestEveryKeyTakesItsDefaultAsText(t *testing.T) {
	c, want := Config{}, DefaultConfig()
	for i, s := range want.settings() {
		if s.key() == "policies" { // stands in the file only
			continue
		}
		var text string
		switch v := s.value.Interface().(type) {
		case time.Duration:
			text = v.String()
		case []string:
			text = strings.Join(v, ",")
		default:
			text = fmt.Sprint(v)
		}
		if err := c.settings()[i].setText(text); err != nil {
			t.Errorf("%s = %s: %v", s.key(), text, err)
		}
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
}
