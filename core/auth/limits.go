package auth

// Limits are a user's own; each that is 0 is left to the settings for all.
type Limits struct {
	Connections int // open at once
	Messages    int // published in a second, over all connections
	Bytes       int // of payload published in a second, over all connections
}
