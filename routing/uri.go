package routing

import "strings"

// URISpelling is the spelling of WAMP URIs.
type URISpelling struct{}

// URI separates with '.'. Inside a level '.', '#' and each character of the Unicode property White_Space are escaped (a
// character of several bytes is one code, %C2%A0), an empty level is %00. WAMP has three forms of match: exact is
// ParseTopic and [Topic.Filter]; wildcard is ParseFilter, in which an empty level is one-level; prefix is ParsePrefix.
var URI URISpelling

var _ Spelling = URI

// ParseTopic reads a URI. It does not allocate when the text is its own canonical text.
func (URISpelling) ParseTopic(text string) (Topic, error) {
	text, err := uriTopics.parse(text)
	return Topic{text}, err
}

// PrintTopic writes any topic.
func (URISpelling) PrintTopic(t Topic) (string, error) {
	return uriTopics.print(t.text)
}

// ParseFilter reads the wildcard form: each empty level is a one-level segment.
func (URISpelling) ParseFilter(text string) (Filter, error) {
	text, err := uriFilters.parse(text)
	return Filter{text: text}, err
}

// PrintFilter writes the wildcard form; it refuses a filter with any-levels.
func (URISpelling) PrintFilter(f Filter) (string, error) {
	return uriFilters.print(f.text)
}

// Prefix is the prefix form of a WAMP match. It may cut inside a level, which no filter can: Filter is the complete
// levels and any-levels, Match tells of what Filter matches whether it begins with the text.
type Prefix struct {
	Filter Filter
	text   string
}

// ParsePrefix reads the prefix form: complete levels as in ParseTopic, then whatever the cut left of the next, possibly
// nothing. The empty text is the prefix of all topics. Errors wrap [ErrFilter].
func (URISpelling) ParsePrefix(text string) (Prefix, error) {
	cut := strings.LastIndexByte(text, '.')
	rest := text[cut+1:]
	if len(text) > maxSpelled {
		return Prefix{}, uriPrefixes.refuse(FaultLong, 0, maxSpelled)
	}
	if fault, at := checkText(rest); fault != 0 {
		return Prefix{}, refuse(ErrFilter, fault, text, ".", cut+1+at)
	}
	if at := uriLevels.raw(rest); at >= 0 && rest != "" {
		return Prefix{}, refuse(ErrFilter, FaultCharacter, text, ".", cut+1+at)
	}
	if cut < 0 {
		return Prefix{Filter{text: "#"}, text}, nil
	}
	done, err := uriPrefixes.parse(text[:cut])
	if err != nil {
		return Prefix{}, err
	}
	if strings.IndexByte(done, '/') < 0 {
		done = soleLevel(done)
	}
	done += "/#"
	if fault, at := scanFilter(done, false); fault != 0 {
		return Prefix{}, uriPrefixes.refuse(fault, strings.Count(done[:at], "/"), cut)
	}
	return Prefix{Filter{text: done}, text}, nil
}

// String is the text that was parsed.
func (p Prefix) String() string { return p.text }

// Match tells whether the URI of t begins with the text, and t is seen by p.Filter.
func (p Prefix) Match(t Topic) bool {
	if !p.Filter.Match(t) {
		return false
	}
	uri, err := URI.PrintTopic(t)
	return err == nil && strings.HasPrefix(uri, p.text)
}
