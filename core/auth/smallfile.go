package auth

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// SmallFile is a file of keys, users, rules or the like, read as a whole.
type SmallFile struct {
	Text []byte
	mode fs.FileMode
}

// ReadSmallFile reads a regular file of at most that many bytes: neither a pipe
// that never ends nor a file that somebody blew up keeps the broker. Its errors
// name the path, but not what the file is for, which the caller says.
func ReadSmallFile(path string, most int64) (SmallFile, error) {
	// Before it is opened: that would wait for a pipe's other end.
	info, err := os.Stat(path)
	if err != nil {
		return SmallFile{}, err
	}
	if !info.Mode().IsRegular() {
		return SmallFile{}, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return SmallFile{}, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return SmallFile{}, err
	}
	if info.Size() > most {
		return SmallFile{}, fmt.Errorf("%s: %d bytes, at most %d", path, info.Size(), most)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return SmallFile{}, err
	case int64(len(text)) > most: // it grew meanwhile
		return SmallFile{}, fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return SmallFile{text, info.Mode().Perm()}, nil
}

// others are the permissions of who is neither a file's owner nor in its group.
const others = 0o007

// Private returns an error, without the path, when everybody may read or change
// the file: for those that hold what opens a door by itself. Windows has no such
// permissions.
func (f SmallFile) Private() error {
	if f.mode&others == 0 || runtime.GOOS == "windows" {
		return nil
	}
	return fmt.Errorf("mode %#o lets everybody use it; chmod 600", f.mode)
}

// ReadSecret is ReadSmallFile for a file that must be Private.
func ReadSecret(path string, most int64) ([]byte, error) {
	f, err := ReadSmallFile(path, most)
	if err != nil {
		return nil, err
	}
	if err := f.Private(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f.Text, nil
}
