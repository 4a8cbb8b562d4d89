package routing

import "testing"

// What is put under levels and taken off again is the same topic.
func TestUnderAndDropAreOpposites(t *testing.T) {
	for _, text := range []string{"a", "a/b", "/", "a//b", "%2B/x", "ü/ "} {
		topic, err := ParseTopic(text)
		if err != nil {
			t.Fatal(err)
		}
		under, err := topic.Under("$share", "g/1")
		if err != nil {
			t.Fatal(err)
		}
		if under.Len() != topic.Len()+2 || under.Drop(2) != topic {
			t.Errorf("%q under two levels is %q, without them %q", topic, under, under.Drop(2))
		}
	}
}
