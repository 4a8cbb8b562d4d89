package mqtt

import (
	"testing"

	"entrepot/core/store"
)

func TestRefusedRelease(t *testing.T) {
	h := openHarbour(t, testConfig(), store.MemoryDisk())
	defer func() { h.close() }()
	h = h.steps("s> connect id=s session=100", "s< connack ...", "s> subscribe id=1 f=t q=2", "s< suback id=1 codes=02",
		"p> connect id=p clean", "p< connack ...", "p> publish topic=t qos=2 id=1 payload=x", "p< pubrec id=1",
		"s< publish topic=t qos=2 id=1 payload=x",
		"fail", "s> pubrec id=1", "failed", "s< disconnect code=97 ...", "s< closed", "heal", "s! drop",
		"s> connect id=s session=100", "s< connack present ...", "s< publish topic=t qos=2 id=1 dup payload=x",
		"s> pubrec id=1", "s< pubrel id=1", "s> pubcomp id=1", "s< nothing")
}
