package auth

import (
	"slices"
	"strings"
)

// Listed is what a users file says of one user, without its secrets.
type Listed struct {
	Name string
	// Password tells whether there is one.
	Password bool
	// Attributes are those of ReadUsers, each KEY=VALUE, in the file's order; a
	// key is there as psk or cra, without its value.
	Attributes []string
}

// ListUsers reads a file for ReadUsers and returns its users, in its order.
func ListUsers(path string) ([]Listed, error) {
	if _, err := ReadUsers(path); err != nil {
		return nil, err
	}
	_, lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	all := make([]Listed, len(lines))
	for i, l := range lines {
		fields := strings.Split(l.rest, " ")
		all[i] = Listed{Name: l.name, Password: fields[0] != noPassword, Attributes: slices.Clone(fields[1:])}
		for j, f := range all[i].Attributes {
			if key, _, _ := strings.Cut(f, "="); slices.Contains(secrets(), key) {
				all[i].Attributes[j] = key
			}
		}
	}
	return all, nil
}

// secrets are the attributes whose values nobody is shown.
func secrets() []string { return []string{"psk", "cra"} }
