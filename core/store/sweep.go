package store

// sweep removes what no opening needs: tables that the manifest never had, which
// attempts left that came to a full disk, and logs whose content is in tables.
// The database does so itself, but only when it has written the next ones, and
// for those there may be no room. Nothing of the store may be writing. What
// cannot be removed stays.
func (s *Store) sweep() {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return
	}
	current := currentManifest(names)
	if current == "" {
		return
	}
	b, err := readFile(s.fs, s.fs.PathJoin(s.dir, current))
	if err != nil {
		return
	}
	m, whole := readManifest(b)
	if !whole {
		return
	}
	for _, name := range names {
		if m.useless(name) {
			_ = s.fs.Remove(s.fs.PathJoin(s.dir, name))
		}
	}
}

// useless tells what sweep removes. Tables that are gone may still be read by an
// opening that failed.
func (m *manifest) useless(name string) bool {
	if n, table := fileNumber(name, tableSuffix); table {
		_, alive := m.tables[n]
		return !alive && !m.gone[n] && !m.backed
	}
	n, log := fileNumber(name, logSuffix)
	return log && n < m.oldest
}
