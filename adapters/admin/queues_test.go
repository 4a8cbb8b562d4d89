package admin

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"entrepot/core"
	engine "entrepot/core/local"
)

// stockroom is a server over a broker with a queue of three messages.
type stockroom struct {
	*testing.T
	addr, token string
}

func openStockroom(t *testing.T, token string) *stockroom {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := core.NewBroker(core.DefaultConfig(), "/", engine.New(log), nil, log)
	s, _, err := b.Connect(t.Context(), core.Hello{Protocol: "test", ClientID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"q", "to"} {
		if _, err := s.DeclareQueue(t.Context(), core.QueueSpec{Key: core.Named(q)}); err != nil {
			t.Fatal(err)
		}
	}
	a, err := core.QueueAddress("q")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "\xff"} {
		m := core.NewMessage(len(text))
		copy(m.Payload, text)
		m.Topic, m.Guarantee = a.Topic, core.AtLeastOnce
		s.Publish(nil, m, nil)
	}
	web := New(DefaultConfig(), core.NewRealms(b), always, func() map[string]map[string]uint64 { return nil }, log)
	web.SetToken(token)
	web.HandleQueues(b)
	return &stockroom{t, serve(t, web), token}
}

// ask returns the status and the answer.
func (s *stockroom) ask(method, path, body string, headers ...string) (int, Outcome) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	var o Outcome
	if resp.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(text, &o); err != nil {
			s.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, o
}

func TestWorkOnQueues(t *testing.T) {
	s := openStockroom(t, "")
	if _, o := s.ask("GET", QueuesPath, ""); o.Count != 2 || o.Queues[0] != (QueueShown{Name: "q", Messages: 3, Bytes: 7}) {
		t.Errorf("list: %+v", o)
	}
	_, o := s.ask("GET", MessagesPath+"?queue=q&count=2", "")
	if o.Count != 2 || o.Messages[0].Payload != "one" || o.Messages[0].Topic != "q" {
		t.Errorf("browse: %+v", o)
	}
	_, o = s.ask("GET", MessagesPath+"?queue=q&after=2", "")
	if o.Count != 1 || !o.Messages[0].Binary || o.Messages[0].Payload != "/w==" {
		t.Errorf("browse on: %+v", o)
	}
	for _, c := range []struct {
		path, body string
		status     int
		count      int
	}{
		{MovePath, `{"queue":"q","to":"to","contains":"two"}`, 200, 1},
		{PurgePath, `{"queue":"q","most":1}`, 200, 1},
		{ReplayPath, `{"queue":"q","reason":"expired"}`, 200, 0},
		{PurgePath, `{"queue":"none"}`, 404, 0},
		{MovePath, `{"queue":"q","to":"q"}`, 400, 0},
		{PurgePath, `{"queue":"q","mots":1}`, 400, 0},
		{PurgePath, `{"queue":"q","most":-1}`, 400, 0},
		{PurgePath, `all`, 400, 0},
		{CancelPath, `{"id":"none"}`, 404, 0},
		{FirePath, `{"id":""}`, 404, 0},
	} {
		status, o := s.ask("POST", c.path, c.body)
		if status != c.status || o.Count != c.count || (o.Error != "") != (status != 200) {
			t.Errorf("%s %s: %d, %+v; want %d, %d", c.path, c.body, status, o, c.status, c.count)
		}
	}
	for _, bad := range []string{"?queue=q&count=0", "?queue=q&count=x", "?queue=q&after=-1"} {
		if status, _ := s.ask("GET", MessagesPath+bad, ""); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
	if status, o := s.ask("GET", DelayedPath, ""); status != 200 || o.Count != 0 {
		t.Errorf("delayed: %d, %+v", status, o)
	}
}

// Pages in a browser read nothing and do nothing; with a token, nobody without.
func TestWorkOnQueuesIsGuarded(t *testing.T) {
	s := openStockroom(t, "secret")
	const proof = "Bearer secret"
	for _, path := range []string{QueuesPath, MessagesPath + "?queue=q", DelayedPath} {
		for want, headers := range map[int][]string{200: {"Authorization", proof}, 401: {"Authorization", "Bearer guess"},
			403: {"Authorization", proof, "Origin", "http://evil.example"}} {
			if status, _ := s.ask("GET", path, "", headers...); status != want {
				t.Errorf("%s with %v: %d, want %d", path, headers, status, want)
			}
		}
	}
	for want, headers := range map[int][]string{401: {}, 403: {"Authorization", proof, "Sec-Fetch-Site", "cross-site"}} {
		if status, _ := s.ask("POST", PurgePath, `{"queue":"q"}`, headers...); status != want {
			t.Errorf("purge with %v: %d, want %d", headers, status, want)
		}
	}
}
