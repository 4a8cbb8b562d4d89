package core

// OwnedQueues is how many exclusive queues a session remembers.
func OwnedQueues(s *Session) int {
	s.rec.ownedLock.Lock()
	defer s.rec.ownedLock.Unlock()
	return len(s.rec.owned)
}

// Grants is how many publish addresses a session remembers.
func Grants(s *Session) int {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	return len(s.grants.ok)
}

// Damped is how many names are remembered for being taken over.
func Damped(b *Broker) int {
	b.damper.mu.Lock()
	defer b.damper.mu.Unlock()
	return len(b.damper.names)
}
