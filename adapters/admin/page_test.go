package admin

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The page and all that it names are served, and nothing of it runs from
// within the page or comes from elsewhere.
// It shows fault 64.
func TestPage(t *testing.T) {
	s := New(DefaultConfig(), newRealms("/"), always, func() map[string]map[string]uint64 { return nil }, slog.New(slog.DiscardHandler))
	s.Page(`realm"1`)
	addr := serve(t, s)
	index, kind := get(t, "http://"+addr+"/")
	if !strings.HasPrefix(kind, "text/html") {
		t.Errorf("/ is %s", kind)
	}
	if !strings.Contains(index, `data-realm="realm&#34;1"`) {
		t.Error("the page does not know its realm")
	}
	kinds := map[string]string{"svg": "image/svg+xml", "css": "text/css", "js": "text/javascript"}
	rig := guarded(t)
	login, _ := get(t, "http://"+rig.addr+"/")
	if !strings.Contains(login, `id="login"`) || strings.Contains(login, "data-realm") {
		t.Error("no log-in where there are users")
	}
	for _, html := range []string{index, login} {
		if inline := regexp.MustCompile(`(?i)<script>|<style|\son[a-z]+=|style=|https?:`).FindString(html); inline != "" {
			t.Errorf("the page has %q", inline)
		}
	}
	seen := map[string]bool{"live.html": true, "login.html": true}
	for todo := []string{index, login}; len(todo) > 0; todo = todo[1:] {
		for _, m := range regexp.MustCompile(`["'](?:\./)?([a-z]+\.(svg|css|js))["']`).FindAllStringSubmatch(todo[0], -1) {
			if seen[m[1]] {
				continue
			}
			seen[m[1]] = true
			part, kind := get(t, "http://"+addr+"/"+m[1])
			if !strings.HasPrefix(kind, kinds[m[2]]) {
				t.Errorf("%s is %s", m[1], kind)
			}
			todo = append(todo, part)
		}
	}
	parts, err := embedded.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if !seen[p.Name()] {
			t.Errorf("%s is in the program and nobody names it", p.Name())
		}
	}
}

// get is a browser's request for a part of the page.
func get(t *testing.T, url string) (body, kind string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", url, resp.StatusCode, err)
	}
	if policy := resp.Header.Get("Content-Security-Policy"); policy != pagePolicy {
		t.Errorf("%s: policy %q", url, policy)
	}
	return string(all), resp.Header.Get("Content-Type")
}
