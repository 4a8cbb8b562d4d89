package coap

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// Priorities, delays and times to live count in a queue that has them.
func TestQueueWithPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		session, _, err := s.broker.Connect(t.Context(), core.Hello{Protocol: "test"})
		if err != nil {
			t.Fatal(err)
		}
		s.sessions = append(s.sessions, session)
		spec := core.QueueSpec{Key: core.Named("jobs"), Args: core.QueueArgs{MaxPriority: 9}}
		if _, err := session.DeclareQueue(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		c, id := s.client("a"), uint16(0)
		ask := func(code codes.Code, want codes.Code, path []string, payload string, more ...message.Option) string {
			t.Helper()
			id++
			got := c.ask(c.request(message.Confirmable, code, id, path, payload, more...))
			if len(got) != 1 || got[0].code != want {
				t.Fatalf("%v %q: %+v", path, payload, got)
			}
			return string(got[0].payload)
		}
		query := func(text string) message.Option { return message.Option{ID: message.URIQuery, Value: []byte(text)} }
		jobs := []string{"q", "jobs"}
		ask(codes.POST, codes.Changed, jobs, "0")
		ask(codes.POST, codes.Changed, jobs, "gone", query("priority=9"), message.Option{ID: message.MaxAge, Value: []byte{1}})
		ask(codes.POST, codes.Changed, jobs, "3", query("priority=3"))
		ask(codes.POST, codes.Changed, jobs, "7, later", query("priority=7"), query("delay=5000"))
		ask(codes.POST, codes.Changed, jobs, "7", query("priority=7"))
		time.Sleep(3 * time.Second)
		take := func(want ...string) {
			t.Helper()
			for _, w := range want {
				if got := ask(codes.POST, codes.Created, []string{"q", "jobs", "take"}, ""); got != w {
					t.Errorf("took %q, want %q", got, w)
				}
			}
		}
		take("7", "3")
		time.Sleep(3 * time.Second)
		take("7, later", "0")
		ask(codes.POST, codes.NotFound, []string{"q", "jobs", "take"}, "")
	})
}
