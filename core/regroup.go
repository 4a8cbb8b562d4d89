package core

import (
	"context"
	"slices"

	"entrepot/core/auth"
)

// regroup gives what is there of users without a connection the groups that the
// door says now: client sessions, their wills, and bindings, also those whose
// client session has ended. before is the door before, nil at a start. When that
// changed anything, a review is due.
func (b *Broker) regroup(before *auth.Door) (changed bool) {
	d := b.Door()
	if d == nil {
		return false
	}
	b.reviews.Lock()
	defer b.reviews.Unlock()
	changed = b.regroupSessions(d, before)
	return b.regroupBindings(d, before) || changed
}

func (b *Broker) regroupSessions(d, before *auth.Door) (changed bool) {
	b.mu.Lock()
	var all []*record
	for _, r := range b.sessions {
		all = append(all, r)
	}
	b.mu.Unlock()
	for _, r := range all {
		changed = r.regroup(d, before) || changed
	}
	return changed
}

// regroup is for a client session without a connection.
func (r *record) regroup(d, before *auth.Door) bool {
	r.mu.Lock()
	defer r.unlock()
	if r.current != nil || r.gone {
		return false
	}
	if r.will != nil {
		r.will.session.regroup(d, before)
	}
	now := d.Regroup(auth.Principal{User: r.user, Groups: r.groups}, before)
	if slices.Equal(now.Groups, r.groups) {
		return false
	}
	r.groups = now.Groups
	r.keep()
	return true
}

// regroup is for a session that has ended, or is about to, and may leave a will.
func (s *Session) regroup(d, before *auth.Door) {
	now := d.Regroup(s.Principal(), before)
	s.renewed.Store(&now)
	s.grants.forget()
}

func (b *Broker) regroupBindings(d, before *auth.Door) (changed bool) {
	g, ok := b.engine.(Guarded)
	if !ok {
		return false
	}
	owners := map[*Owner]*Owner{} // with the groups of now; the same where they are
	var all []BindSpec
	g.EachBinding(func(spec BindSpec) {
		o, known := owners[spec.Owner]
		if !known {
			o = spec.Owner
			if now := d.Regroup(o.Principal, before); !slices.Equal(now.Groups, o.Principal.Groups) {
				o = &Owner{Session: o.Session, Principal: now}
			}
			owners[spec.Owner] = o
		}
		if o != spec.Owner {
			spec.Owner, spec.By = o, 0
			all = append(all, spec)
		}
	})
	for _, spec := range all {
		// What is gone meanwhile needs no rights.
		_, _ = b.engine.Bind(context.Background(), spec)
	}
	return len(all) > 0
}
