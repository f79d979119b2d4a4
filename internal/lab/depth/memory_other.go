//go:build !linux

package depth

// TempDirInMemory does nothing on this system.
func TempDirInMemory() {}
