// Package conf reads the broker's settings: one TOML file, then the
// environment, over the defaults.
//
// Every package owns its settings as a Config with defaults and Validate; this
// package only puts them together, one section each, and is strict: a key that
// no package knows, a value of another kind, an address that this version must
// not open are errors, which name the file and line, or the variable.
//
// config.go is the whole, setting.go one key of it, file.go and environ.go the
// two sources, address.go what a listen key may say. entrepot.toml is the
// commented sample; a test holds it equal to the defaults.
package conf
