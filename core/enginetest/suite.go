package enginetest

import (
	"slices"
	"testing"
	"testing/synctest"

	"entrepot/core"
)

// Run tests an engine. open makes a fresh one with the standard exchanges and
// nothing else; what it starts ends with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) core.Engine) {
	t.Run("required", func(t *testing.T) { runAll(t, open, required()) })
	t.Run("optional", func(t *testing.T) { runAll(t, open, optional()) })
}

// test is one case.
type test struct {
	title string
	run   func(*rig)
}

func required() []test {
	return slices.Concat(routingTests(), exchangeTests(), confirmTests(), deliveryTests(), creditTests(),
		consumerTests(), cancelTests(), pullTests(), queueTests(), ownerTests(), limitTests(), expiryTests(),
		onceTests(), deadLetterTests(), deadFaultTests(), handlingTests(), levelTests(), replayTests(), applyTests(), orderTests())
}

func optional() []test {
	return slices.Concat(matchedTests(), allOrNoneTests(), priorityTests(), behindTests(), chooseTests(), delayTests(), keeperTests())
}

func runAll(t *testing.T, open func(t *testing.T) core.Engine, tests []test) {
	for _, c := range tests {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, open(t))
				c.run(r)
				r.finish()
			})
		})
	}
}
