package routing

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func (d *dice) headers(n int) Headers {
	var h Headers
	for range d.roll(n) {
		h = append(h, Header{
			Name:  []string{"a", "b", "c", "x-a", "x-b"}[d.roll(5)],
			Value: []any{nil, "v", "w", int32(1), true}[d.roll(5)],
		})
	}
	return h
}

func (d *dice) exchange() string { return fmt.Sprintf("x%d", d.roll(6)) }

func (d *dice) binding(t *testing.T) Binding[int] {
	b := Binding[int]{Source: d.exchange(), Queue: d.roll(5), Value: d.roll(3)}
	if d.roll(3) == 0 {
		b.Exchange = d.exchange()
	}
	if b.Filter = d.filter(t); d.roll(2) == 0 {
		b.Filter = d.topic(t).Filter()
	}
	if d.roll(2) == 0 {
		b.Args = d.headers(4)
		if d.roll(3) > 0 {
			b.Args = append(b.Args, Header{"x-match", []any{"all", "any", "all-with-x", "any-with-x"}[d.roll(4)]})
		}
	}
	return b
}

// game is a router and the plain one, on which the same is played.
type game struct {
	*dice
	router *Router[int]
	plain  *plainRouter
	bound  []Binding[int]
}

// routerIsDefinition plays declares, binds and their ways back on a router and on the plain one, and asks both.
func routerIsDefinition(t *testing.T, d *dice) {
	g := game{dice: d, router: NewRouter[int](), plain: &plainRouter{map[string]*plainExchange{}}}
	for i := range 4 {
		kind := Kind(1 + i)
		_ = g.router.Declare(fmt.Sprintf("x%d", i), kind, "")
		g.plain.declare(fmt.Sprintf("x%d", i), kind, "")
	}
	for !d.done() && !t.Failed() {
		switch d.roll(12) {
		default:
			g.bind(t)
		case 0, 1, 2, 3:
			g.unbind(t)
		case 4:
			g.declare(t)
		case 5:
			g.delete(t)
		case 6:
			g.removeQueue(t)
		}
		sameRoute(t, g.router, g.plain, d)
	}
	sameLists(t, g.router, g.plain)
	nothingLeft(t, g.router)
}

// pick rolls a new binding, or one that was bound before, with another value.
func (g *game) pick(t *testing.T) Binding[int] {
	if len(g.bound) == 0 || g.roll(2) == 0 {
		return g.binding(t)
	}
	b := g.bound[g.roll(len(g.bound))]
	b.Value = g.roll(3)
	return b
}

func (g *game) bind(t *testing.T) {
	b := g.pick(t)
	added, ok := g.plain.bind(b)
	if got, err := g.router.Bind(b); got != added || (err == nil) != ok {
		t.Errorf("bind %+v: %v, %v", b, got, err)
	}
	g.bound = append(g.bound, b)
}

func (g *game) unbind(t *testing.T) {
	b := g.pick(t)
	want := len(g.plain.take(func(o Binding[int]) bool { return like(o, b) })) > 0
	if g.router.Unbind(b) != want {
		t.Errorf("unbind %+v", b)
	}
}

func (g *game) declare(t *testing.T) {
	name, kind, alternate := g.exchange(), Kind(1+g.roll(4)), []string{"", g.exchange()}[g.roll(2)]
	ok := g.plain.declare(name, kind, alternate)
	if err := g.router.Declare(name, kind, alternate); (err == nil) != ok || err != nil && !errors.Is(err, ErrConflict) {
		t.Errorf("declare %s %s: %v", name, kind, err)
	}
}

func (g *game) delete(t *testing.T) {
	if name := g.exchange(); g.router.Delete(name) != g.plain.delete(name) {
		t.Errorf("delete %s", name)
	}
}

func (g *game) removeQueue(t *testing.T) {
	q := g.roll(5)
	want := g.plain.take(func(o Binding[int]) bool { return o.Exchange == "" && o.Queue == q })
	sameBindings(t, g.router.RemoveQueue(q), want)
}

func sameRoute(t *testing.T, r *Router[int], plain *plainRouter, d *dice) {
	t.Helper()
	name, topic, h := d.exchange(), d.topic(t), d.headers(6)
	if d.roll(8) == 0 { // enough headers to be sorted
		for i := range 20 {
			h = append(h, Header{fmt.Sprintf("h%d", i), i})
		}
	}
	got := map[[2]int]int{}
	cacheable, err := r.Route(name, topic, h, func(q int, v any) { got[[2]int{q, v.(int)}]++ })
	if plain.exchanges[name] == nil {
		if !errors.Is(err, ErrNoExchange) || len(got) > 0 {
			t.Errorf("route through %s: %v", name, err)
		}
		return
	}
	want, may := plain.route(name, topic, h)
	if err != nil || !maps.Equal(got, want) || cacheable != may {
		t.Errorf("%s through %s with %v: got %v, want %v; cacheable %v; %v", topic, name, h, got, want, cacheable, err)
	}
}

func sameBindings(t *testing.T, got, want []Binding[int]) {
	t.Helper()
	for _, b := range got {
		i := slices.IndexFunc(want, func(o Binding[int]) bool { return like(o, b) && o.Value == b.Value })
		if i < 0 {
			t.Errorf("binding %+v is not one of %+v", b, want)
			return
		}
		want = slices.Delete(slices.Clone(want), i, i+1)
	}
	if len(want) > 0 {
		t.Errorf("bindings missing: %+v", want)
	}
}

func sameLists(t *testing.T, r *Router[int], plain *plainRouter) {
	t.Helper()
	if names := slices.Sorted(slices.Values(r.Exchanges())); !slices.Equal(names, slices.Sorted(maps.Keys(plain.exchanges))) {
		t.Errorf("exchanges %v", names)
	}
	var all []Binding[int]
	for name, x := range plain.exchanges {
		sameBindings(t, r.Bindings(name), x.bindings)
		all = append(all, x.bindings...)
		if kind, ok := r.Kind(name); kind != x.kind || !ok || r.Alternate(name) != x.alternate || r.InUse(name) != (len(x.bindings) > 0) {
			t.Errorf("%s: %s, in use %v", name, kind, r.InUse(name))
		}
	}
	for q := range 5 {
		sameBindings(t, r.BindingsOf(q), slices.DeleteFunc(slices.Clone(all), func(b Binding[int]) bool { return b.Exchange != "" || b.Queue != q }))
	}
}

// nothingLeft takes all out, by queue and by exchange, and looks into the corners.
func nothingLeft(t *testing.T, r *Router[int]) {
	t.Helper()
	for q := range 5 {
		r.RemoveQueue(q)
	}
	for _, name := range r.Exchanges() {
		for _, b := range r.Bindings(name) {
			if b.Exchange == "" || !r.Unbind(b) {
				t.Errorf("left: %+v", b)
			}
		}
	}
	for name, x := range r.exchanges {
		emptyExchange(t, x)
		r.Delete(name)
	}
	if len(r.exchanges) != 0 || r.queues.m != nil {
		t.Errorf("left: %+v", r)
	}
}

func emptyExchange(t *testing.T, x *exchange[int]) {
	t.Helper()
	if x.len() != 0 || x.links != 0 {
		t.Errorf("left in %s: %d bindings, %d links", x.name, x.len(), x.links)
	}
	if x.byFilter.plain.size != 0 || x.byFilter.dollars.size != 0 {
		t.Errorf("left in %s: %d and %d nodes", x.name, x.byFilter.plain.size, x.byFilter.dollars.size)
	}
	if x.inward.oldest != nil || x.inward.index != nil {
		t.Errorf("left in %s: %+v", x.name, x.inward)
	}
}

func TestRouterRandom(t *testing.T) { seeded(t, 2000, 1200, routerIsDefinition) }
func FuzzRouter(f *testing.F)       { fuzzed(f, routerIsDefinition) }

// standard is a router with an exchange of each kind.
func standard(t testing.TB) *Router[string] {
	t.Helper()
	r := NewRouter[string]()
	for name, kind := range map[string]Kind{"amq.direct": Direct, "amq.fanout": Fanout, "amq.topic": TopicKind, "amq.headers": HeadersKind} {
		if err := r.Declare(name, kind, ""); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// reached is the queues that a message goes to, in order.
func reached(t testing.TB, r *Router[string], exchange, topic string, h Headers) string {
	t.Helper()
	var list []string
	if _, err := r.Route(exchange, parseTopic(t, topic), h, func(q string, _ any) { list = append(list, q) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func bind(t testing.TB, r *Router[string], b Binding[string]) {
	t.Helper()
	if added, err := r.Bind(b); err != nil || !added {
		t.Fatalf("bind %+v: %v, %v", b, added, err)
	}
}

func key(t testing.TB, text string) Filter {
	t.Helper()
	topic, err := Dotted.ParseTopic(text)
	if err != nil {
		t.Fatal(err)
	}
	return topic.Filter()
}

// AMQP 0-9-1, 3.1.3: what each kind lets through.
func TestKinds(t *testing.T) {
	r := standard(t)
	pattern := func(text string) Filter {
		f, err := Dotted.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		return f.WithDollars()
	}
	bind(t, r, Binding[string]{Source: "amq.direct", Queue: "a", Filter: key(t, "red")})
	bind(t, r, Binding[string]{Source: "amq.direct", Queue: "b", Filter: key(t, "*")})
	bind(t, r, Binding[string]{Source: "amq.direct", Queue: "c", Filter: key(t, "")})
	bind(t, r, Binding[string]{Source: "amq.fanout", Queue: "a"})
	bind(t, r, Binding[string]{Source: "amq.fanout", Queue: "b", Filter: key(t, "red")})
	bind(t, r, Binding[string]{Source: "amq.fanout", Queue: "b", Filter: key(t, "blue")}) // twice, so visited twice
	bind(t, r, Binding[string]{Source: "amq.topic", Queue: "a", Filter: pattern("*.stock.#")})
	bind(t, r, Binding[string]{Source: "amq.topic", Queue: "b", Filter: pattern("#")})
	bind(t, r, Binding[string]{Source: "amq.topic", Queue: "mqtt", Filter: parseFilter(t, "#")})
	bind(t, r, Binding[string]{Source: "amq.headers", Queue: "a", Args: Headers{{"x", int32(1)}}})
	for _, c := range []struct{ exchange, topic, want string }{
		{"amq.direct", "red", "a"}, {"amq.direct", "*", "b"}, {"amq.direct", "%00", "c"}, {"amq.direct", "blue", ""},
		{"amq.fanout", "any", "a b b"},
		{"amq.topic", "usd/stock", "a b mqtt"}, {"amq.topic", "eur/stock/db", "a b mqtt"}, {"amq.topic", "stock/nasdaq", "b mqtt"}, {"amq.topic", "$SYS/x", "b"},
		{"amq.headers", "red", ""},
	} {
		if c.exchange == "amq.headers" {
			continue
		}
		if got := reached(t, r, c.exchange, c.topic, nil); got != c.want {
			t.Errorf("%s with %s: %q", c.exchange, c.topic, got)
		}
	}
}

func TestKindNames(t *testing.T) {
	for kind, name := range map[Kind]string{Direct: "direct", Fanout: "fanout", TopicKind: "topic", HeadersKind: "headers"} {
		if got, err := ParseKind(name); got != kind || err != nil || kind.String() != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "Direct", "x-delayed-message", "kind 9"} {
		if k, err := ParseKind(name); k != 0 || !errors.Is(err, ErrKind) {
			t.Errorf("%q: %v, %v", name, k, err)
		}
	}
	if Kind(9).String() != "kind 9" {
		t.Error(Kind(9))
	}
}

func TestDeclare(t *testing.T) {
	r := NewRouter[string]()
	for _, c := range []struct {
		name, alternate string
		kind            Kind
		want            error
	}{
		{"x", "", Direct, nil},
		{"x", "", Direct, nil},
		{"x", "", Fanout, ErrConflict},
		{"x", "alt", Direct, ErrConflict},
		{"y", "alt", Direct, nil},
		{"y", "", Direct, ErrConflict},
		{"z", "", 0, ErrKind},
		{"z", "", 9, ErrKind},
	} {
		if err := r.Declare(c.name, c.kind, c.alternate); !errors.Is(err, c.want) {
			t.Errorf("declare %+v: %v", c, err)
		}
	}
	if _, ok := r.Kind("z"); ok || r.Delete("z") || r.InUse("z") || r.Alternate("z") != "" || r.Bindings("z") != nil || r.BindingsOf("q") != nil || r.RemoveQueue("q") != nil {
		t.Error("something of an exchange that is not there")
	}
	if r.Alternate("y") != "alt" {
		t.Error(r.Alternate("y"))
	}
}

func TestBindRefused(t *testing.T) {
	r := standard(t)
	deep := any("x")
	for range 40000 {
		deep = []any{deep}
	}
	table := any("x")
	for range 40000 {
		table = Headers{{"a", table}}
	}
	any := func(args ...Header) Binding[string] {
		return Binding[string]{Source: "amq.headers", Queue: "q", Args: args}
	}
	for name, c := range map[string]struct {
		b    Binding[string]
		want error
	}{
		"source":               {Binding[string]{Source: "none", Queue: "q"}, ErrNoExchange},
		"target":               {Binding[string]{Source: "amq.fanout", Exchange: "none"}, ErrNoExchange},
		"no filter":            {Binding[string]{Source: "amq.topic", Queue: "q"}, ErrBinding},
		"no key":               {Binding[string]{Source: "amq.direct", Queue: "q"}, ErrBinding},
		"wildcard in a key":    {Binding[string]{Source: "amq.direct", Queue: "q", Filter: parseFilter(t, "a/+")}, ErrBinding},
		"x-match":              {any(Header{"x-match", "some"}), ErrBinding},
		"x-match of no string": {any(Header{"x-match", 1}), ErrBinding},
		"type of an argument":  {any(Header{"a", struct{}{}}), ErrBinding},
		"int is no type":       {any(Header{"a", 1}), ErrBinding},
		"deep list":            {any(Header{"a", deep}), ErrBinding},
		"deep table":           {any(Header{"a", table}), ErrBinding},
	} {
		if added, err := r.Bind(c.b); added || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, added, err)
		}
		if r.Unbind(c.b) {
			t.Errorf("%s: unbound", name)
		}
	}
	if r.queues.m != nil {
		t.Error("a refused binding left something")
	}
}

func TestBindAgainReplacesValue(t *testing.T) {
	r := standard(t)
	b := Binding[string]{Source: "amq.topic", Queue: "q", Filter: parseFilter(t, "a/+"), Args: Headers{{"b", "1"}, {"a", int64(2)}}, Value: "old"}
	bind(t, r, b)
	b.Args = Headers{{"a", int64(2)}, {"b", "1"}} // the order of names does not count
	b.Value = "new"
	if added, err := r.Bind(b); added || err != nil {
		t.Error(added, err)
	}
	values := func() (list []any) {
		_, _ = r.Route("amq.topic", parseTopic(t, "a/b"), nil, func(_ string, v any) { list = append(list, v) })
		return list
	}
	if got := values(); !reflect.DeepEqual(got, []any{"new"}) {
		t.Errorf("values %v", got)
	}
	other := b
	other.Args = Headers{{"a", int32(2)}, {"b", "1"}} // the type does
	bind(t, r, other)
	other.Args = nil
	bind(t, r, other)
	other.Filter = parseFilter(t, "+/b")
	bind(t, r, other)
	other.Filter = other.Filter.WithDollars()
	bind(t, r, other)
	if got := len(values()); got != 5 || len(r.BindingsOf("q")) != 5 {
		t.Errorf("%d values", got)
	}
}

func TestBindingsKeepOrder(t *testing.T) {
	r := standard(t)
	var want []string
	for i := range 50 { // enough for an index
		text := fmt.Sprintf("t/%d", i)
		bind(t, r, Binding[string]{Source: "amq.topic", Queue: "q", Filter: parseFilter(t, text), Value: i})
		bind(t, r, Binding[string]{Source: "amq.topic", Queue: "other", Filter: parseFilter(t, text)})
		want = append(want, text)
	}
	for _, i := range []int{0, 20, 47} {
		if !r.Unbind(Binding[string]{Source: "amq.topic", Queue: "q", Filter: parseFilter(t, want[i])}) {
			t.Error("not there")
		}
		want = slices.Delete(want, i, i+1)
	}
	removed := r.RemoveQueue("q")
	var got []string
	for _, b := range removed {
		got = append(got, b.Filter.String())
	}
	if !slices.Equal(got, want) || len(r.BindingsOf("q")) != 0 || len(r.BindingsOf("other")) != 50 || len(r.Bindings("amq.topic")) != 50 {
		t.Errorf("%v", got)
	}
}

// Exchanges bound to exchanges, in a ring; alternates, in a chain; the default exchange is nobody's.
// It shows fault 104.
func TestExchangeGraph(t *testing.T) {
	r := NewRouter[string]()
	for _, x := range []struct {
		name, alternate string
		kind            Kind
	}{
		{"in", "lost", TopicKind}, {"one", "", Fanout}, {"two", "", Fanout}, {"deaf", "lost", TopicKind},
		{"lost", "last", Direct}, {"last", "in", Direct}, {"missing", "nowhere", Direct},
	} {
		if err := r.Declare(x.name, x.kind, x.alternate); err != nil {
			t.Fatal(err)
		}
	}
	bind(t, r, Binding[string]{Source: "in", Exchange: "one", Filter: parseFilter(t, "a/#")})
	bind(t, r, Binding[string]{Source: "in", Exchange: "two", Filter: parseFilter(t, "+/b")})
	bind(t, r, Binding[string]{Source: "in", Exchange: "deaf", Filter: parseFilter(t, "d")})
	bind(t, r, Binding[string]{Source: "one", Exchange: "two"})
	bind(t, r, Binding[string]{Source: "two", Exchange: "one"})
	bind(t, r, Binding[string]{Source: "two", Exchange: "in"})
	bind(t, r, Binding[string]{Source: "two", Exchange: "two"})
	bind(t, r, Binding[string]{Source: "one", Queue: "q1"})
	bind(t, r, Binding[string]{Source: "two", Queue: "q2"})
	bind(t, r, Binding[string]{Source: "last", Queue: "dead", Filter: key(t, "x")})
	bind(t, r, Binding[string]{Source: "lost", Queue: "lost", Filter: key(t, "d")})
	for _, c := range []struct{ exchange, topic, want string }{
		{"in", "a/b", "q1 q2"}, // by two ways, each exchange once
		{"in", "z/b", "q1 q2"},
		{"one", "any", "q1 q2"},
		{"in", "x", "dead"},  // nothing, alternate nothing, alternate of the alternate
		{"in", "y", ""},      // round the chain of alternates
		{"in", "d", "lost"},  // an exchange matched, and that one handed over
		{"missing", "x", ""}, // the alternate is not there
	} {
		if got := reached(t, r, c.exchange, c.topic, nil); got != c.want {
			t.Errorf("%s with %s: %q", c.exchange, c.topic, got)
		}
	}
	if !r.Delete("two") || r.Delete("two") {
		t.Error("delete")
	}
	if got := reached(t, r, "in", "a/b", nil); got != "q1" {
		t.Errorf("without two: %q", got)
	}
	if len(r.Bindings("in")) != 2 || len(r.Bindings("one")) != 1 || r.BindingsOf("q2") != nil || !r.InUse("one") {
		t.Error("bindings of a deleted exchange are left")
	}
}

// More exchanges in a row than there is room for on the stack, each reached many times.
func TestManyExchanges(t *testing.T) {
	r := NewRouter[string]()
	name := func(i int) string { return fmt.Sprintf("x%d", i) }
	const n = 300
	for i := range n {
		_ = r.Declare(name(i), Fanout, "")
	}
	for i := range n {
		bind(t, r, Binding[string]{Source: name(i), Queue: "q"})
		for j := range 20 {
			bind(t, r, Binding[string]{Source: name(i), Exchange: name((i*7 + j) % n)})
		}
	}
	if got := len(strings.Fields(reached(t, r, "x0", "a", nil))); got != n {
		t.Errorf("%d visits", got)
	}
	if !r.Delete("x5") || len(r.Bindings("x0")) != 20 { // its queue, and 19 others
		t.Errorf("%d bindings", len(r.Bindings("x0")))
	}
}

func TestRouteCacheable(t *testing.T) {
	r := standard(t)
	bind(t, r, Binding[string]{Source: "amq.topic", Exchange: "amq.headers", Filter: parseFilter(t, "h/#")})
	bind(t, r, Binding[string]{Source: "amq.headers", Queue: "q"})
	for topic, want := range map[string]bool{"a": true, "h/1": false} {
		got, err := r.Route("amq.topic", parseTopic(t, topic), nil, func(string, any) {})
		if got != want || err != nil {
			t.Errorf("%s: %v, %v", topic, got, err)
		}
	}
	if got, _ := r.Route("amq.headers", parseTopic(t, "a"), nil, func(string, any) {}); got {
		t.Error("headers exchange is cacheable")
	}
	if _, err := r.Route("", parseTopic(t, "a"), nil, nil); !errors.Is(err, ErrNoExchange) {
		t.Error("there is a default exchange")
	}
}

func TestRouteAllocations(t *testing.T) {
	r := standard(t)
	bind(t, r, Binding[string]{Source: "amq.topic", Queue: "q", Filter: parseFilter(t, "a/+")})
	bind(t, r, Binding[string]{Source: "amq.direct", Exchange: "amq.topic", Filter: key(t, "a.b")})
	topic := parseTopic(t, "a/b")
	for _, name := range []string{"amq.topic", "amq.direct"} {
		n := 0
		visit := func(string, any) { n++ }
		if got := testing.AllocsPerRun(100, func() { _, _ = r.Route(name, topic, nil, visit) }); got != 0 || n == 0 {
			t.Errorf("%s: %v allocations, %d visits", name, got, n)
		}
	}
}
