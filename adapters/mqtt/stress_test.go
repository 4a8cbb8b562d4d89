package mqtt

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"entrepot/core"
)

// Confirmations that race with deliveries are not lost: in the end nothing is
// out any more.
func TestNothingStaysUnsettled(t *testing.T) {
	addr, broker := listen(t, testConfig())
	const pairs, count = 3, 2000
	var all sync.WaitGroup
	for i := range pairs {
		for qos := 1; qos <= 2; qos++ {
			name := fmt.Sprintf("%d/%d", i, qos)
			sub := dialPlain(t, addr, "connect id=s"+name+" clean v=4", fmt.Sprintf("subscribe id=1 f=t/%s q=%d", name, qos))
			pub := dialPlain(t, addr, "connect id=p"+name+" clean v=4")
			all.Go(func() {
				go io.Copy(io.Discard, pub.conn)
				for n := range count {
					pub.say(fmt.Sprintf("publish topic=t/%s qos=1 id=%d payload=%d", name, n%60000+1, n))
				}
			})
			all.Go(func() {
				for range count {
					var id int
					line := sub.packet()
					if _, err := fmt.Sscanf(line, "publish topic=t/"+name+" qos=1 id=%d", &id); err != nil {
						t.Errorf("got %s", line)
						return
					}
					sub.say(fmt.Sprintf("puback id=%d", id))
				}
			})
		}
	}
	all.Wait()
	awaitEmpty(t, broker)
}

// awaitEmpty waits until no queue holds anything.
func awaitEmpty(t *testing.T, broker *core.Broker) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		e := broker.Stats().Engine
		if e.Unsettled+e.Ready == 0 && e.Bytes == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %+v", e)
		}
	}
}
