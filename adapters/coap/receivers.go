package coap

import "sync"

// receivers are lent to connections while they have something to read, so that
// idle ones have none.
type receivers struct {
	server *Server
	pool   sync.Pool
}

func (r *receivers) get() *receiver {
	if in, ok := r.pool.Get().(*receiver); ok {
		return in
	}
	return &receiver{server: r.server}
}

func (r *receivers) put(in *receiver) { r.pool.Put(in) }
