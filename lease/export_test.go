package lease

// CrashingFile is File with a call before each step of a save.
func CrashingFile(dir string, crash func(step string)) Store {
	return &fileStore{dir: dir, crash: crash}
}

// EncodeRecord returns what a record's file has, however little sense it makes.
func EncodeRecord(r Record) ([]byte, error) { return encodeRecord(fileRecord{Record: r}) }

// WithChecksum returns a file of any line, with the checksum of that.
func WithChecksum(line string) []byte {
	return withChecksum([]byte(line), '\n')
}
