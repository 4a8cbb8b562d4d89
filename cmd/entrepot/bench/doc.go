// Package bench measures a message broker from outside, by URL: how many
// messages a second it delivers, what one delivery costs it in processor time,
// how much memory it takes, and whether each message arrived once and in
// order. It speaks MQTT (3.1.1 and 5), STOMP (1.0 to 1.2) and AMQP 0-9-1 on raw
// sockets and works with any broker, not only with Entrepot. CoAP servers have runs
// of their own (coap_run.go): clients that keep PUTs open, observers, and many
// devices that are in no hurry. All of it may be over TLS or DTLS (secure.go).
//
// There are three kinds of run. A pair run joins the i-th publisher to the
// i-th subscriber over a topic of their own. A fan-out run has one topic for
// all. An idle run opens many connections with one subscription each, lets
// them rest and compares the broker's memory before and after.
//
// The client side shares its machine with the broker, so it is kept lean:
//
//   - a publisher encodes a block of equal frames once (block.go), and before
//     each write only puts new numbers into it;
//   - a subscriber reads into one buffer and counts frames where they lie
//     (link.go, mqtt.go, stomp.go, amqp.go): no copy, no allocation and no look at the
//     clock for a message;
//   - the two meet only through one counter for each publisher and subscriber,
//     stored once for each read (progress.go).
//
// Run does a whole measurement, Command is the `entrepot bench` command. The
// order to read in is options.go, run.go, traffic.go, publisher.go,
// subscriber.go; idle.go stands alone.
package bench
