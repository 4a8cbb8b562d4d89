package mqtt

import "entrepot/core"

// pageSize is what the payloads of messages that are out are counted in; smaller
// ones weigh nothing, and there are never more than 65,535 of them.
const pageSize = 4 << 10

// load counts the payload of a message that is sent on this connection.
func (f *flight) load(p *parcel, m *core.Message) {
	f.unload(p)
	p.pages = uint16(min(len(m.Payload)/pageSize, 0xFFFF))
	f.pages += int(p.pages)
}

// unload takes load back.
func (f *flight) unload(p *parcel) {
	f.pages -= int(p.pages)
	p.pages = 0
}

// unloadAll begins anew: nothing was sent on this connection.
func (f *flight) unloadAll() {
	for i := range f.parcels {
		f.parcels[i].pages = 0
	}
	f.pages = 0
}

// reachedBytes counts a source that begins to wait for bytes. With mu held.
func (s *session) reachedBytes(src *source) {
	if s.quota > 0 && !src.starved && !src.leaving.Load() {
		s.conn.session.Reached(core.LimitUnackedBytes)
	}
}

// full tells that the client has to confirm something before it is sent more. One
// message may always be out, however large. With mu held.
func (s *session) full() bool {
	return s.quota == 0 || s.flight.pages > 0 && s.flight.pages >= s.conn.server.cfg.UnackedBytes/pageSize
}
