package wamp

import (
	"slices"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/routing"
)

// countSubscribers is the specification's name; nexus misspells it.
const countSubscribers = wamp.URI("wamp.subscription.count_subscribers")

// subscriptionProcedure finds the procedures about subscriptions (WAMP,
// Subscription Meta API).
func subscriptionProcedure(uri wamp.URI) metaFunc {
	switch uri {
	case wamp.MetaProcSubList:
		return subscriptionList
	case wamp.MetaProcSubLookup:
		return subscriptionLookup
	case wamp.MetaProcSubMatch:
		return subscriptionMatch
	case wamp.MetaProcSubGet:
		return subscriptionGet
	case wamp.MetaProcSubListSubscribers, countSubscribers:
		return func(m *metaCall) (list, error) {
			id, _ := m.id(0)
			s, ids := m.realm.members(id)
			switch {
			case s == nil || !m.knows(s):
				return nil, noSubscription()
			case uri == countSubscribers:
				return list{int64(len(ids))}, nil
			}
			return list{ids}, nil
		}
	}
	return nil
}

func noSubscription() error {
	return refuse(wamp.ErrNoSuchSubscription, "there is no such subscription")
}

// shown are the details of a subscription.
func (s *subscription) shown() dict {
	return dict{{"id", int64(s.id)}, {"created", instant(s.created)}, {"uri", s.pattern.uri}, {"match", s.pattern.match}}
}

func subscriptionList(m *metaCall) (list, error) {
	ids := map[string]list{}
	for _, s := range m.realm.subscriptions(m.knows) {
		ids[s.pattern.match] = append(ids[s.pattern.match], int64(s.id))
	}
	return list{byMatch(ids)}, nil
}

// byMatch is a dict of ids under the names of the match policies.
func byMatch(ids map[string]list) (d dict) {
	for _, match := range [...]string{matchExact, matchPrefix, matchWildcard} {
		d = append(d, member{match, append(list{}, ids[match]...)})
	}
	return d
}

// asked reads a URI and the match policy in an options dict after it.
func (m *metaCall) asked() (pattern, error) {
	uri, ok := m.text(0)
	if !ok {
		return pattern{}, refuse(errArgument, "the first argument is a URI")
	}
	match := ""
	if len(m.args) > 1 {
		options, _ := m.args[1].(dict)
		match = options.text(wamp.OptMatch)
	}
	return parsePattern(uri, match)
}

func subscriptionLookup(m *metaCall) (list, error) {
	p, err := m.asked()
	if err != nil {
		return nil, err
	}
	m.realm.mu.RLock()
	defer m.realm.mu.RUnlock()
	if s := m.realm.subs[p.key()]; s != nil && m.knows(s) {
		return list{int64(s.id)}, nil
	}
	return list{nil}, nil
}

func subscriptionMatch(m *metaCall) (list, error) {
	uri, _ := m.text(0)
	t, err := routing.URI.ParseTopic(uri)
	if err != nil {
		return nil, refuse(errURI, "%v", err)
	}
	ids := list{}
	for _, s := range m.realm.subscriptions(func(s *subscription) bool { return s.pattern.matches(t) && m.knows(s) }) {
		ids = append(ids, int64(s.id))
	}
	if len(ids) == 0 {
		return list{nil}, nil
	}
	return list{ids}, nil
}

func subscriptionGet(m *metaCall) (list, error) {
	id, _ := m.id(0)
	s, _ := m.realm.members(id)
	if s == nil || !m.knows(s) {
		return nil, noSubscription()
	}
	return list{s.shown()}, nil
}

// registrationProcedure finds the procedures about registrations (WAMP, Registration
// Meta API).
func registrationProcedure(uri wamp.URI) metaFunc {
	switch uri {
	case wamp.MetaProcRegList:
		return registrationList
	case wamp.MetaProcRegLookup:
		return registrationLookup
	case wamp.MetaProcRegMatch:
		return registrationMatch
	case wamp.MetaProcRegGet, wamp.MetaProcRegListCallees, wamp.MetaProcRegCountCallees:
		return func(m *metaCall) (list, error) { return m.oneRegistration(uri) }
	}
	return nil
}

func shownProcedure(p core.Procedure) dict {
	uri, match := procedureURI(p)
	return dict{{"id", int64(p.ID)}, {"created", instant(p.Created)}, {"uri", uri}, {"match", match}, {"invoke", p.Invoke.String()}}
}

// procedures are those that the caller may know of.
func (m *metaCall) procedures() []core.Procedure {
	return slices.DeleteFunc(m.realm.broker.Procedures(), func(p core.Procedure) bool { return !m.knowsProcedure(p) })
}

func registrationList(m *metaCall) (list, error) {
	ids := map[string]list{}
	for _, p := range m.procedures() {
		_, match := procedureURI(p)
		ids[match] = append(ids[match], int64(p.ID))
	}
	return list{byMatch(ids)}, nil
}

func registrationLookup(m *metaCall) (list, error) {
	asked, err := m.asked()
	if err != nil {
		return nil, err
	}
	for _, p := range m.procedures() {
		if uri, match := procedureURI(p); uri == asked.uri && match == asked.match {
			return list{int64(p.ID)}, nil
		}
	}
	return list{nil}, nil
}

func registrationMatch(m *metaCall) (list, error) {
	uri, _ := m.text(0)
	t, err := routing.URI.ParseTopic(uri)
	if err != nil {
		return nil, refuse(errURI, "%v", err)
	}
	if p, ok := m.realm.broker.Procedure(t); ok && m.knowsProcedure(p) {
		return list{int64(p.ID)}, nil
	}
	return list{nil}, nil
}

// oneRegistration answers what is asked of a single one.
func (m *metaCall) oneRegistration(uri wamp.URI) (list, error) {
	id, _ := m.id(0)
	for _, p := range m.procedures() {
		if p.ID != id {
			continue
		}
		ids := list{}
		for _, s := range p.Callees {
			ids = append(ids, int64(m.realm.sessionID(s)))
		}
		switch uri {
		case wamp.MetaProcRegGet:
			return list{shownProcedure(p)}, nil
		case wamp.MetaProcRegListCallees:
			return list{ids}, nil
		}
		return list{int64(len(ids))}, nil
	}
	return nil, refuse(wamp.ErrNoSuchRegistration, "there is no such registration")
}
