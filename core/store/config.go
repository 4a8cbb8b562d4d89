package store

import "fmt"

// Config is a store's settings.
type Config struct {
	// Data is the data directory; "" keeps everything in memory.
	Data string `toml:"data"`
	// CacheBytes is memory for blocks read from disk.
	CacheBytes int64 `toml:"cache_bytes"`
	// ReserveBytes is the size of a file that is freed when the disk is full,
	// so that what frees space can be written; 0 is none.
	ReserveBytes int64 `toml:"reserve_bytes"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{Data: "entrepot-data", CacheBytes: 32 << 20, ReserveBytes: 64 << 20}
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.CacheBytes < 1<<20:
		return fmt.Errorf("cache_bytes %d: at least 1MiB", c.CacheBytes)
	case c.ReserveBytes < 0:
		return fmt.Errorf("reserve_bytes %d: not negative", c.ReserveBytes)
	}
	return nil
}
