package routing

import "strings"

// DottedSpelling is the spelling of AMQP routing and binding keys and of STOMP /topic destinations.
type DottedSpelling struct{}

// Dotted separates with '.'; in filters '*' is one level and '#' any levels, anywhere, at most twice. Inside a level '.'
// is %2E; in filters a literal level that is exactly "*" or "#" is %2A or %23. The empty text is the topic of one empty
// level.
//
// AMQP bindings see levels that begin with '$': add [Filter.WithDollars]. The key of a direct binding is a topic, not a
// filter: ParseTopic, then [Topic.Filter].
var Dotted DottedSpelling

var _ Spelling = Dotted

// ParseTopic reads a routing key. It does not allocate when the text is its own canonical text.
func (DottedSpelling) ParseTopic(text string) (Topic, error) {
	text, err := dottedTopics.parse(text)
	return Topic{text}, err
}

// PrintTopic writes any topic.
func (DottedSpelling) PrintTopic(t Topic) (string, error) {
	return dottedTopics.print(t.text)
}

// ParseFilter reads a binding key or the destination of a subscription.
func (DottedSpelling) ParseFilter(text string) (Filter, error) {
	text, err := dottedFilters.parse(text)
	return Filter{text: text}, err
}

// PrintFilter writes any filter; the mark of [Filter.WithDollars] is not in the text.
func (DottedSpelling) PrintFilter(f Filter) (string, error) {
	return dottedFilters.print(f.text)
}

// ParseAngle is ParseFilter for STOMP clients used to ActiveMQ: a last level that is exactly ">" is any-levels. Printed
// it is "#", so the destination that the client gave must be kept to be given back.
func (d DottedSpelling) ParseAngle(text string) (Filter, error) {
	if text == ">" || strings.HasSuffix(text, ".>") {
		text = text[:len(text)-1] + "#"
	}
	return d.ParseFilter(text)
}
