package lease

import (
	"fmt"
	"hash/crc32"
)

// CrashingFile is File with a call before each step of a save.
func CrashingFile(dir string, crash func(step string)) Store {
	return &fileStore{dir: dir, crash: crash}
}

// EncodeRecord returns what a record's file has, however little sense it makes.
func EncodeRecord(r Record) ([]byte, error) { return encodeRecord(r) }

// WithChecksum returns a file of any line, with the checksum of that.
func WithChecksum(line string) []byte {
	return fmt.Appendf(nil, "%s\n%08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}
