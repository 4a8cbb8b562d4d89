package routing

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

const million = 1_000_000

// million filters of one shape.
func millionFilters(b *testing.B, shape func(i int) string) []Filter {
	b.Helper()
	filters := make([]Filter, million)
	for i := range filters {
		filters[i] = parseFilter(b, shape(i))
	}
	return filters
}

// fleet is the filter of one device of many: most of a broker's filters look so.
func fleet(i int) string { return fmt.Sprintf("site%d/dev%d/cmd/in", i%1000, i) }

// mixed is what applications subscribe to: literals, one-level at any place, any-levels at the end.
func mixed(i int) string {
	switch i % 10 {
	case 0:
		return fmt.Sprintf("site%d/+/cmd/in%d", i%1000, i)
	case 1:
		return fmt.Sprintf("site%d/dev%d/#", i%1000, i)
	case 2:
		return fmt.Sprintf("+/dev%d/cmd/+", i)
	}
	return fleet(i)
}

func filled(filters []Filter) *Table[int] {
	var t Table[int]
	for i, f := range filters {
		t.Add(f, i)
	}
	return &t
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkTableBuild puts a million filters in; B/filter is what the table holds of memory beside the filters' texts.
func BenchmarkTableBuild(b *testing.B) {
	for name, shape := range map[string]func(int) string{"fleet": fleet, "mixed": mixed} {
		b.Run(name, func(b *testing.B) {
			filters := millionFilters(b, shape)
			b.ReportAllocs()
			for b.Loop() {
				before := heap()
				t := filled(filters)
				b.ReportMetric(float64(heap()-before)/million, "B/filter")
				runtime.KeepAlive(t)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/filter")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTableMatch asks a table of a million filters.
func BenchmarkTableMatch(b *testing.B) {
	topics := func(shape string, n int) []Topic {
		list := make([]Topic, n)
		for i := range list {
			k := i * 7919 % million
			list[i] = parseTopic(b, fmt.Sprintf(shape, k%1000, k))
		}
		return list
	}
	tables := map[string]*Table[int]{
		"fleet": filled(millionFilters(b, fleet)),
		"mixed": filled(millionFilters(b, mixed)),
	}
	loose := filled(millionFilters(b, mixed))
	for _, text := range []string{"#/alarm", "#/cmd/#", "site1/#/x"} {
		loose.Add(parseFilter(b, text), -1)
	}
	tables["any-levels inside"] = loose
	for _, c := range []struct{ name, table, shape string }{
		{"hit", "fleet", "site%d/dev%d/cmd/in"},
		{"miss", "fleet", "site%d/none%d/cmd/in"},
		{"wildcard mix, hit", "mixed", "site%d/dev%d/cmd/in"},
		{"wildcard mix, miss", "mixed", "site%d/none%d/cmd/out"},
		{"any-levels inside", "any-levels inside", "site%d/dev%d/cmd/in"},
	} {
		b.Run(c.name, func(b *testing.B) {
			list := topics(c.shape, 10000)
			visits, i := 0, 0
			visit := func(int) { visits++ }
			b.ReportAllocs()
			for b.Loop() {
				tables[c.table].Match(list[i%len(list)], visit)
				i++
			}
			b.ReportMetric(float64(visits)/float64(b.N), "visits/op")
		})
	}
}

// BenchmarkTableHostile asks 10,000 filters of 120 and more segments with a topic of 128 levels that fits their paths.
func BenchmarkTableHostile(b *testing.B) {
	topic := parseTopic(b, strings.TrimSuffix(strings.Repeat("a/", 128), "/"))
	for _, c := range []struct {
		name, prefix, suffix string
		early                bool
	}{
		{"one-level, early", "", "b", true},
		{"one-level, late", "", "b", false},
		{"two any-levels, early", "#/", "#/b", true},
		{"two any-levels, late", "#/", "#/b", false},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := hostile(b, 5000, c.early, c.prefix, c.suffix)
			b.ReportAllocs()
			for b.Loop() {
				table.Match(topic, func(int) {})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/filter")
		})
	}
}

// BenchmarkTableChurn adds and removes one filter of a million.
func BenchmarkTableChurn(b *testing.B) {
	filters := millionFilters(b, fleet)
	table := filled(filters)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		table.Remove(filters[i%million], i%million)
		table.Add(filters[i%million], i%million)
		i += 7919
	}
}

func BenchmarkTree(b *testing.B) {
	var tree Tree[int]
	topics := make([]Topic, million)
	for i := range topics {
		topics[i] = parseTopic(b, fleet(i))
	}
	before := heap()
	for i, t := range topics {
		tree.Set(t, i)
	}
	size := float64(heap()-before) / million
	for _, c := range []struct{ name, filter string }{
		{"one", "site1/dev1/cmd/in"},
		{"1000 of one site", "site1/#"},
		{"one-level inside", "site1/+/cmd/in"},
		{"all sites, one device", "+/dev77/#"},
		{"any-levels inside", "site5/#/in"},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := parseFilter(b, c.filter)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				tree.Match(f, func(Topic, int) bool { n++; return true })
			}
			b.ReportMetric(float64(n)/float64(b.N), "topics/op")
			b.ReportMetric(size, "B/topic")
		})
	}
}

type idle struct{ _ [64]byte }

// BenchmarkRouter is a million idle clients, each a queue with one binding; B/binding is all that the router holds for one
// beside the filter's text and the queue itself.
func BenchmarkRouter(b *testing.B) {
	filters := millionFilters(b, mixed)
	queues := make([]*idle, million)
	for i := range queues {
		queues[i] = new(idle)
	}
	before := heap()
	r := NewRouter[*idle]()
	_ = r.Declare("amq.topic", TopicKind, "")
	_ = r.Declare("amq.direct", Direct, "")
	for i, f := range filters {
		if _, err := r.Bind(Binding[*idle]{Source: "amq.topic", Queue: queues[i], Filter: f}); err != nil {
			b.Fatal(err)
		}
	}
	size := float64(heap()-before) / million
	visits := 0
	visit := func(*idle, any) { visits++ }
	topics := make([]Topic, 10000)
	for i := range topics {
		topics[i] = parseTopic(b, fleet(i*7919%million))
	}
	b.Run("route", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Route("amq.topic", topics[i%len(topics)], nil, visit); err != nil {
				b.Fatal(err)
			}
			i++
		}
		b.ReportMetric(size, "B/binding")
	})
	b.Run("client comes and goes", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			i += 7919
			r.RemoveQueue(queues[i%million])
			_, _ = r.Bind(Binding[*idle]{Source: "amq.topic", Queue: queues[i%million], Filter: filters[i%million]})
		}
	})
}

func BenchmarkSpelling(b *testing.B) {
	topic := parseTopic(b, "plant/hall7/line3/temp")
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"MQTT parse", func() { _, _ = MQTT.ParseTopic("plant/hall7/line3/temp") }},
		{"Dotted parse", func() { _, _ = Dotted.ParseTopic("plant.hall7.line3.temp") }},
		{"Dotted parse, escapes", func() { _, _ = Dotted.ParseTopic("plant.hall%2E7.line/3.temp") }},
		{"Dotted print", func() { _, _ = Dotted.PrintTopic(topic) }},
		{"URI parse", func() { _, _ = URI.ParseTopic("plant.hall7.line3.temp") }},
		{"URI parse, escapes", func() { _, _ = URI.ParseTopic("plant.hall%207.%00.temp") }},
		{"Path print", func() { _, _ = Path.PrintTopic(topic) }},
		{"MQTT refuse 65,535 slashes", func() { _, _ = MQTT.ParseTopic(slashes) }},
		{"URI refuse 65,535 dots", func() { _, _ = URI.ParseTopic(dots) }},
		{"Filter.Match", func() { _ = oneFilter.Match(topic) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.f()
			}
		})
	}
}

var (
	slashes   = strings.Repeat("/", 65535)
	dots      = strings.Repeat(".", 65535)
	oneFilter = Filter{text: "plant/+/line3/#"}
)
