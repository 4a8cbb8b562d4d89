package conf

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const prefix = "ENTREPOT_"

// variable is the name of a setting in the environment: mqtt.limits.linger is
// ENTREPOT_MQTT_LIMITS_LINGER.
func (s setting) variable() string { return prefix + strings.ToUpper(strings.Join(s.path, "_")) }

// linked fits the names that container software sets for a service called
// "entrepot" or, say, "entrepot-mqtt"; they are none of ours.
var linked = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_.*)?$|_PORT(_\d+_(TCP|UDP)(_.*)?)?$`)

// readEnviron changes c by variables. An empty one counts as not set; an
// unknown one whose name begins with a section of ours is an error.
func (c *Config) readEnviron(environ []string) error {
	known, sections := map[string]setting{}, []string{}
	for _, s := range c.settings() {
		known[s.variable()] = s
		sections = append(sections, prefix+strings.ToUpper(s.path[0])+"_")
	}
	var errs []error
	for _, line := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(line, "=")
		s, ok := known[name]
		switch {
		case ok && text != "":
			if err := s.setText(text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		case !ok && !linked.MatchString(name) && begins(name, sections):
			errs = append(errs, fmt.Errorf("%s: %w", name, c.unknownVariable(name)))
		}
	}
	return errors.Join(errs...)
}

func begins(name string, sections []string) bool {
	return slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(name, s) })
}

func (c *Config) unknownVariable(name string) error {
	var names []string
	for _, s := range c.settings() {
		names = append(names, s.variable())
	}
	if meant := closest(name, false, names); meant != "" {
		return fmt.Errorf("sets no key; is %s meant?", meant)
	}
	return errors.New("sets no key")
}
