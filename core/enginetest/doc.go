// Package enginetest is what every engine must do, as a test suite. An engine
// calls Run from a test of its own. The required cases must pass; an optional
// one is skipped where the engine answers ErrUnsupported, or leaves
// Delivery.Matched nil.
//
// Every case runs in a testing/synctest bubble with an engine of its own, so
// time costs nothing, and ends with a look at the engine's figures: with its
// queues and exchanges deleted nothing may be left.
package enginetest
