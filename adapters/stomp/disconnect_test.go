package stomp

import (
	"fmt"
	"testing"

	client "github.com/go-stomp/stomp/v3"
)

// A receipt of DISCONNECT says that what the client left is back: who comes
// after it gets everything in order.
func TestDisconnectReceiptMeansThatTheQueueIsFree(t *testing.T) {
	addr, _ := testServer(t, DefaultConfig())
	for round := range 50 {
		queue := fmt.Sprintf("/queue/q%d", round)
		first := dial(t, addr)
		if _, err := first.Subscribe(queue, client.AckClientIndividual); err != nil {
			t.Fatal(err)
		}
		if err := first.Disconnect(); err != nil {
			t.Fatal(err)
		}
		second := dial(t, addr)
		for _, body := range []string{"1", "2"} {
			if err := second.Send(queue, "text/plain", []byte(body), client.SendOpt.Receipt); err != nil {
				t.Fatal(err)
			}
		}
		s, err := second.Subscribe(queue, client.AckAuto)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"1", "2"} {
			if m := <-s.C; string(m.Body) != want || m.Header.Get("redelivered") != "" {
				t.Fatalf("round %d: got %s %v, want %s for the first time", round, m.Body, m.Header, want)
			}
		}
		if err := second.Disconnect(); err != nil {
			t.Fatal(err)
		}
	}
}
