package admin

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	engine "entrepot/core/local"
)

// rig is a server with the users ann, who may all, carl, who may work on the
// queue q, and bob, who may nothing; the token is "operator". Passwords are the
// names, backwards.
type rig struct {
	*testing.T
	broker *core.Broker
	server *Server
	addr   string
	log    *lines
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// readUsers are users whose lines are the same each time.
func readUsers(t *testing.T, names ...string) *auth.Users {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		sum := sha512.Sum512([]byte(backwards(name) + "saltsalt"))
		fmt.Fprintf(&text, "%s:$6$c2FsdHNhbHQ=$%s\n", name, base64.StdEncoding.EncodeToString(sum[:]))
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// proved is a user who logged in.
func proved(t *testing.T, b *core.Broker, name string) auth.Principal {
	t.Helper()
	who, err := b.Authenticate(context.Background(), auth.Credentials{Protocol: "http", User: name, Password: backwards(name)})
	if err != nil {
		t.Fatal(err)
	}
	return who
}

func backwards(name string) (out string) {
	for _, r := range name {
		out = string(r) + out
	}
	return out
}

// rule is the rig's policy.
func rule(who auth.Principal, a auth.Action, o auth.Object) error {
	if a != auth.Admin || who.User == "ann" || who.User == "carl" && o == (auth.Object{Kind: auth.Queue, Name: "q"}) {
		return nil
	}
	return errors.New("no rule allows it")
}

func guarded(t *testing.T) *rig {
	t.Helper()
	r := unserved(t)
	r.addr = serve(t, r.server)
	return r
}

func unserved(t *testing.T) *rig {
	t.Helper()
	out := &lines{}
	log := slog.New(slog.NewTextHandler(out, nil))
	b := core.NewBroker(core.DefaultConfig(), "/", engine.New(log), rule, log)
	s, _, err := b.Connect(t.Context(), core.Hello{Protocol: "test", ClientID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"q", "other"} {
		if _, err := s.DeclareQueue(t.Context(), core.QueueSpec{Key: core.Named(q)}); err != nil {
			t.Fatal(err)
		}
	}
	b.SetDoor(auth.NewDoor(readUsers(t, "ann", "bob", "carl")))
	web := New(DefaultConfig(), core.NewRealms(b), always, func() map[string]map[string]uint64 { return nil }, log)
	web.SetToken("operator")
	web.HandleQueues(b)
	web.HandleCommand("/api/v1/reload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "reloaded\n")
	}))
	web.Page("realm1")
	return &rig{T: t, broker: b, server: web, log: out}
}

// request is what a client sends; the zero one is a GET of /.
type request struct {
	path, body string // a body makes it a POST
	basic      string // user
	bearer     string
	cookie     string
	headers    []string
}

func (g *rig) do(q request) (*http.Response, string) {
	g.Helper()
	method := http.MethodGet
	if q.body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(g.Context(), method, "http://"+g.addr+q.path, strings.NewReader(q.body))
	if err != nil {
		g.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if q.basic != "" {
		user, password, said := strings.Cut(q.basic, ":")
		if !said {
			password = backwards(user)
		}
		r.SetBasicAuth(user, password)
	}
	if q.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+q.bearer)
	}
	if q.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookiePlain, Value: q.cookie})
	}
	for i := 0; i < len(q.headers); i += 2 {
		r.Header.Set(q.headers[i], q.headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		g.Fatal(err)
	}
	return resp, string(all)
}

// logIn is what the page's form does; the secret is "" when it fails.
func (g *rig) logIn(user, password string) (secret string, resp *http.Response, body string) {
	g.Helper()
	form, err := json.Marshal(proof{user, password})
	if err != nil {
		g.Fatal(err)
	}
	resp, body = g.do(request{path: loginPath, body: string(form), headers: []string{"Origin", "http://" + g.addr}})
	for _, c := range resp.Cookies() {
		secret = c.Value
	}
	return secret, resp, body
}

// Who may what over HTTP: with each proof, by the admin right; and what is
// written down of it.
func TestWhoMayAdminister(t *testing.T) {
	g := guarded(t)
	cookie, _, _ := g.logIn("ann", "nna")
	carls, _, _ := g.logIn("carl", "lrac")
	own := []string{"Origin", "http://" + g.addr}
	const purge = `{"queue":"q"}`
	for _, c := range []struct {
		name   string
		q      request
		status int
		body   string
		audit  string // in the log, "" if nothing may be
	}{
		{"healthz is open", request{path: "/healthz"}, 200, "ok\n", ""},
		{"readyz is open and tells nothing", request{path: "/readyz"}, 200, "ready\n", ""},
		{"metrics of nobody", request{path: "/metrics"}, 401, "log-in is needed", ""},
		{"metrics with a wrong password", request{path: "/metrics", basic: "ann:wrong"}, 401, "log-in is needed", ""},
		{"metrics of an unknown user", request{path: "/metrics", basic: "dora:wrong"}, 401, "log-in is needed", ""},
		{"metrics without the right", request{path: "/metrics", basic: "bob"}, 403, `admin \"$SYS/metrics\": not allowed`, "user=bob remote=127.0.0.1 act=metrics object=$SYS/metrics outcome=refused"},
		{"metrics with it", request{path: "/metrics", basic: "ann"}, 200, "entrepot_build_info", ""},
		{"metrics with the token", request{path: "/metrics", bearer: "operator"}, 200, "entrepot_build_info", ""},
		{"metrics with a cookie", request{path: "/metrics", cookie: cookie}, 200, "entrepot_build_info", ""},
		{"metrics for a foreign page", request{path: "/metrics", cookie: cookie, headers: []string{"Origin", "http://evil.example"}}, 403, "web page", "act=metrics object=$SYS/metrics outcome=refused"},
		{"queues of nobody", request{path: QueuesPath}, 401, "log-in is needed", ""},
		{"queues with another token", request{path: QueuesPath, bearer: "guess"}, 401, "log-in is needed", ""},
		{"queues of one who may none", request{path: QueuesPath, basic: "bob"}, 403, "not allowed", "user=bob remote=127.0.0.1 act=queue_list outcome=refused"},
		{"queues of one who may one", request{path: QueuesPath, basic: "carl"}, 200, `{"count":1,"queues":[{"name":"q",`, ""},
		{"queues of one who may all", request{path: QueuesPath, basic: "ann"}, 200, `{"count":2,`, ""},
		{"messages of one's queue", request{path: MessagesPath + "?queue=q", basic: "carl"}, 200, `{"count":0}`, "user=carl remote=127.0.0.1 act=queue_browse object=q outcome=done"},
		{"messages of another", request{path: MessagesPath + "?queue=other", basic: "carl"}, 403, "not allowed", "act=queue_browse object=other outcome=refused"},
		{"purge of one's queue", request{path: PurgePath, body: purge, basic: "carl"}, 200, `{"count":0}`, "act=queue_purge object=q outcome=done"},
		{"purge of another", request{path: PurgePath, body: `{"queue":"other"}`, basic: "carl"}, 403, "not allowed", "act=queue_purge object=other outcome=refused"},
		{"purge of none", request{path: PurgePath, body: `{"queue":"none"}`, basic: "ann"}, 404, "not found", "act=queue_purge object=none outcome=failed"},
		{"move to another", request{path: MovePath, body: `{"queue":"q","to":"other"}`, basic: "carl"}, 403, "not allowed", "act=queue_move object=q outcome=refused"},
		{"move with both", request{path: MovePath, body: `{"queue":"q","to":"other"}`, basic: "ann"}, 200, "", "user=ann remote=127.0.0.1 act=queue_move object=q outcome=done"},
		{"replay of another", request{path: ReplayPath, body: `{"queue":"other"}`, basic: "carl"}, 403, "not allowed", "act=queue_replay object=other outcome=refused"},
		{"delayed", request{path: DelayedPath, basic: "carl"}, 403, "$SYS/delayed", "act=delayed_list outcome=refused"},
		{"cancel", request{path: CancelPath, body: `{"id":"1"}`, basic: "carl"}, 403, "$SYS/delayed", "act=delayed_cancel object=1 outcome=refused"},
		{"fire", request{path: FirePath, body: `{"id":"1"}`, bearer: "operator"}, 404, "not found", "protocol=token user=\"\" remote=127.0.0.1 act=delayed_fire object=1 outcome=failed"},
		{"another command", request{path: "/api/v1/reload", body: "{}", basic: "ann"}, 200, "reloaded", "act=reload object=$SYS/reload outcome=done"},
		{"another command without the right", request{path: "/api/v1/reload", body: "{}", basic: "carl"}, 403, "$SYS/reload", "user=carl remote=127.0.0.1 act=reload object=$SYS/reload outcome=refused"},
		{"by the page", request{path: PurgePath, body: purge, cookie: carls, headers: own}, 200, `{"count":0}`, "user=carl remote=127.0.0.1 act=queue_purge object=q outcome=done"},
		{"by the page, as browsers say now", request{path: PurgePath, body: purge, cookie: carls, headers: []string{"Sec-Fetch-Site", "same-origin"}}, 200, "", "outcome=done"},
		{"by a page of another port", request{path: PurgePath, body: purge, cookie: cookie, headers: []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}}, 403, "web page", "act=queue_purge outcome=refused"},
		{"by a page that hides", request{path: PurgePath, body: purge, cookie: cookie, headers: []string{"Origin", "null"}}, 403, "web page", "outcome=refused"},
		{"by no page, with its cookie", request{path: PurgePath, body: purge, cookie: cookie}, 403, "web page", "outcome=refused"},
		{"with a password a browser keeps, by a foreign page", request{path: PurgePath, body: purge, basic: "ann", headers: []string{"Origin", "http://evil.example"}}, 403, "web page", "outcome=refused"},
		{"by a form", request{path: PurgePath, body: purge, cookie: cookie, headers: append([]string{"Content-Type", "text/plain"}, own...)}, 415, "", ""},
		{"with a cookie of nobody", request{path: PurgePath, body: purge, cookie: "guess", headers: own}, 401, "log-in is needed", ""},
		{"for another host, as there are users", request{path: QueuesPath, basic: "ann", headers: []string{"X-Forwarded-Host", "evil.example"}}, 200, "", ""},
	} {
		before := len(g.log.String())
		resp, body := g.do(c.q)
		log := g.log.String()[before:]
		if resp.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %q, want %d %q", c.name, resp.StatusCode, body, c.status, c.body)
		}
		if !strings.Contains(log, c.audit) || c.audit == "" && strings.Contains(log, "msg=audit") && !strings.Contains(log, "act=login") {
			t.Errorf("%s: log %q, want %q", c.name, log, c.audit)
		}
		if asked := strings.Join(resp.Header.Values("WWW-Authenticate"), " "); (c.status == 401) != strings.HasPrefix(asked, "Basic realm=") {
			t.Errorf("%s: WWW-Authenticate %q", c.name, asked)
		}
		for header, want := range map[string]string{"Access-Control-Allow-Origin": "", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := resp.Header.Get(header); got != want {
				t.Errorf("%s: %s %q", c.name, header, got)
			}
		}
	}
}

// The page's log-in: a cookie that scripts and other sites do not get; the same
// answer whatever is wrong; a log-out that ends it.
func TestPageLogIn(t *testing.T) {
	g := guarded(t)
	for _, c := range [][2]string{{"ann", "wrong"}, {"dora", "wrong"}, {"", ""}, {"ann", ""}, {"<script>alert(1)</script>", "x"}} {
		secret, resp, body := g.logIn(c[0], c[1])
		if secret != "" || resp.StatusCode != 403 || body != `{"count":0,"error":"the name or the password is wrong"}`+"\n" {
			t.Errorf("%q: %d %q", c, resp.StatusCode, body)
		}
	}
	secret, resp, _ := g.logIn("ann", "nna")
	line := resp.Header.Get("Set-Cookie")
	if want := cookiePlain + "=" + secret + "; Path=/; HttpOnly; SameSite=Strict"; resp.StatusCode != 200 || line != want || len(secret) < 52 {
		t.Errorf("%d, cookie %q, want %q", resp.StatusCode, line, want)
	}
	if _, body := g.do(request{path: "/", cookie: secret, headers: []string{"Accept", "text/html"}}); !strings.Contains(body, `data-realm="realm1" data-user="ann"`) {
		t.Errorf("after the log-in:\n%s", body)
	}
	if again, _, _ := g.logIn("ann", "nna"); again == secret {
		t.Error("the same secret twice")
	}
	own := []string{"Origin", "http://" + g.addr}
	for _, c := range []struct {
		q      request
		status int
	}{
		{request{path: loginPath, body: `{"user":"ann","password":"nna"}`}, 403},
		{request{path: loginPath, body: `{"user":"ann","password":"nna"}`, headers: []string{"Origin", "http://evil.example"}}, 403},
		{request{path: loginPath, body: `user=ann&password=nna`, headers: append([]string{"Content-Type", "application/x-www-form-urlencoded"}, own...)}, 415},
		{request{path: loginPath, body: `[`, headers: own}, 400},
		{request{path: loginPath}, 405},
		{request{path: logoutPath, body: `{}`, cookie: secret}, 403},
		{request{path: "/metrics", cookie: secret}, 200},
		{request{path: logoutPath, body: `{}`, cookie: secret, headers: own}, 200},
		{request{path: "/metrics", cookie: secret}, 401},
		{request{path: logoutPath, body: `{}`, cookie: secret, headers: own}, 200},
	} {
		if resp, body := g.do(c.q); resp.StatusCode != c.status {
			t.Errorf("%+v: %d %q, want %d", c.q, resp.StatusCode, body, c.status)
		}
	}
	for _, want := range []string{"user=ann remote=127.0.0.1 act=login outcome=done", "user=ann remote=127.0.0.1 act=logout outcome=done"} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("no line %q in\n%s", want, g.log)
		}
	}
	if strings.Contains(g.log.String(), secret) {
		t.Error("the cookie is in the log")
	}
}

// Who is taken out of the users is out of the page, too.
func TestVisitOfAUserWhoIsGone(t *testing.T) {
	g := guarded(t)
	anns, _, _ := g.logIn("ann", "nna")
	bobs, _, _ := g.logIn("bob", "bob")
	g.broker.SetDoor(auth.NewDoor(readUsers(t, "bob")))
	for secret, want := range map[string]bool{anns: false, bobs: true} {
		_, body := g.do(request{path: "/", cookie: secret, headers: []string{"Accept", "text/html"}})
		if strings.Contains(body, "data-user") != want {
			t.Errorf("logged in: %t", !want)
		}
	}
	if resp, _ := g.do(request{path: "/metrics", cookie: anns}); resp.StatusCode != 401 {
		t.Errorf("metrics: %d", resp.StatusCode)
	}
}

// asPage is a request of the page with a cookie.
func asPage(secret string) *http.Request {
	r := httptest.NewRequest("GET", "http://localhost:8080/ws", nil)
	r.Header.Set("Origin", "http://localhost:8080")
	r.AddCookie(&http.Cookie{Name: cookiePlain, Value: secret})
	return r
}

// A visit ends when nothing is asked for long and no WebSocket is open, and in
// any case in the end; its WebSockets end with it.
func TestVisitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		b := core.NewBroker(core.DefaultConfig(), "/", engine.New(log), nil, log)
		b.SetDoor(auth.NewDoor(readUsers(t, "ann")))
		s := New(DefaultConfig(), core.NewRealms(b), always, func() map[string]map[string]uint64 { return nil }, log)
		v := s.door.visits
		idle, longest := DefaultConfig().VisitIdle, DefaultConfig().VisitLongest
		ann := proved(t, b, "ann")

		used, unused := v.begin(ann), v.begin(ann)
		time.Sleep(idle - time.Second)
		if v.find(asPage(used)) == nil {
			t.Error("ended before its time")
		}
		time.Sleep(2 * time.Second)
		if v.find(asPage(used)) == nil || v.find(asPage(unused)) != nil {
			t.Error("the one that asks ended, or the other did not")
		}

		visit := s.Visit(asPage(used))
		if visit == nil || visit.Principal.User != "ann" {
			t.Fatalf("visit %+v", visit)
		}
		var ended atomic.Int32
		release := visit.Hold(func() { ended.Add(1) })
		time.Sleep(3 * idle)
		if v.find(asPage(used)) == nil {
			t.Error("ended while a WebSocket was open")
		}
		time.Sleep(longest)
		synctest.Wait()
		if ended.Load() != 1 || v.find(asPage(used)) != nil {
			t.Errorf("in the end: %d told", ended.Load())
		}
		release()
		visit.Hold(func() { ended.Add(1) })()
		if ended.Load() != 2 {
			t.Error("held after the end, and not told")
		}

		secret := v.begin(ann)
		release = s.Visit(asPage(secret)).Hold(func() { t.Error("told after the release") })
		time.Sleep(2 * idle)
		release()
		time.Sleep(idle + time.Second)
		if v.find(asPage(secret)) != nil || len(v.open) != 0 {
			t.Error("a closed page goes on for ever")
		}

		brief := ann
		brief.Until = time.Now().Add(time.Minute)
		secret = v.begin(brief)
		time.Sleep(time.Minute + time.Second)
		if v.find(asPage(secret)) != nil {
			t.Error("goes on after what was proved ended")
		}
	})
}

// There are so many visits of a user and of all, the oldest end.
func TestVisitsAreBounded(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	b := core.NewBroker(core.DefaultConfig(), "/", engine.New(log), nil, log)
	b.SetDoor(auth.NewDoor(readUsers(t, "ann", "bob")))
	v := newVisits(b, DefaultConfig())
	ann := proved(t, b, "ann")
	others := v.begin(proved(t, b, "bob"))
	first := v.begin(ann)
	for range mostUserVisit {
		v.begin(ann)
	}
	if v.find(asPage(first)) != nil || v.find(asPage(others)) == nil || len(v.open) != mostUserVisit+1 {
		t.Errorf("%d open", len(v.open))
	}
	for i := range 2 * mostVisits {
		v.begin(auth.Principal{User: strings.Repeat("x", i)})
	}
	if len(v.open) != mostVisits || v.find(asPage(others)) != nil {
		t.Errorf("%d open", len(v.open))
	}
	for key := range v.open {
		v.mu.Lock()
		v.remove(key)
		v.mu.Unlock()
	}
}

// A cookie proves nothing for a page of another origin, over TLS its name and
// flags are stricter.
func TestVisitOfAForeignPage(t *testing.T) {
	g := unserved(t)
	secret := g.server.door.visits.begin(proved(t, g.broker, "ann"))
	r := asPage(secret)
	r.Header.Set("Origin", "http://localhost:3000")
	if g.server.Visit(r) != nil {
		t.Error("another port's page is let in")
	}
	r.Header.Del("Origin")
	if g.server.Visit(r) != nil {
		t.Error("what is no page is let in")
	}
	over := httptest.NewRequest("GET", "https://localhost/", nil)
	if c := cookie(over, secret); c.Name != "__Host-entrepot_visit" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("over TLS: %v", c)
	}
	over.AddCookie(&http.Cookie{Name: cookiePlain, Value: secret})
	if g.server.door.visits.find(over) != nil {
		t.Error("over TLS a cookie of no TLS counts")
	}
}

// Requests from elsewhere need users; the token is for this machine.
func TestRemoteAskers(t *testing.T) {
	g := unserved(t)
	ask := func(users bool, authorize func(*http.Request)) int {
		if users {
			g.broker.SetDoor(auth.NewDoor(readUsers(t, "ann")))
		} else {
			g.broker.SetDoor(nil)
		}
		r := httptest.NewRequest("GET", "http://broker.example"+QueuesPath, nil)
		r.RemoteAddr = "192.0.2.1:5"
		authorize(r)
		w := httptest.NewRecorder()
		g.server.http.Handler.ServeHTTP(w, r.WithContext(t.Context()))
		return w.Code
	}
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer operator") }
	user := func(r *http.Request) { r.SetBasicAuth("ann", "nna") }
	for want, got := range map[string][2]int{
		"token, users":  {ask(true, token), 401},
		"user, users":   {ask(true, user), 200},
		"nobody, users": {ask(true, func(*http.Request) {}), 401},
		"token":         {ask(false, func(r *http.Request) { r.Host = "localhost"; token(r) }), 403},
		"rebinding":     {ask(false, token), 421},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", want, got[0], got[1])
		}
	}
}
