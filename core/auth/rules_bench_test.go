package auth

import (
	"fmt"
	"strings"
	"testing"
)

// manyRules is a file of n rules: for users and groups, for topics of a site each,
// and at the end one line that allows ann to publish and subscribe.
func manyRules(n int) string {
	var b strings.Builder
	for i := range n - 1 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "allow user:u%d publish,subscribe site/%d/#\n", i, i)
		case 1:
			fmt.Fprintf(&b, "allow group:g%d subscribe site/%d/+/temp\n", i%16, i)
		case 2:
			fmt.Fprintf(&b, "allow authenticated publish,subscribe site/%d/%%u/#\n", i)
		case 3:
			fmt.Fprintf(&b, "deny anyone publish site/%d/+/valve\n", i)
		}
	}
	return b.String() + "allow user:ann publish,subscribe bench/#\n"
}

// BenchmarkRules is one decision. A session keeps what it was allowed, so a message costs
// none.
func BenchmarkRules(b *testing.B) {
	who := Principal{User: "ann", ClientID: "c", Groups: []string{"g1", "g5"}}
	for _, n := range []int{1, 100, 1000} {
		r, err := ParseRules([]byte(manyRules(n)))
		if err != nil {
			b.Fatal(err)
		}
		for name, a := range map[string]Action{"publish": Publish, "subscribe": Subscribe} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Decide(who, a, Object{Name: "bench/1/temp"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
