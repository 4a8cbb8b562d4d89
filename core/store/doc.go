// Package store keeps bytes across restarts: one ordered key-value database in
// a data directory. It knows no message and no protocol.
//
// Writes come in groups (Batch): all of a group is there after a crash, or
// none. Commit gathers groups while the disk is busy and syncs them together;
// a group's callback runs after its bytes are safe, in the order of Commit.
//
// When the disk fails (an error of write or sync) the store fails: everything
// that waits gets ErrFailed, nothing false is confirmed, reads of what is
// cached may go on. It tries the device from time to time and goes on when it
// recovers. Damaged blocks are found by checksum and reported by key range;
// the rest is served.
package store
