//go:build unix && go1.25

package servertest

import (
	"slices"
	"sync"
	"testing"
)

// Shared returns a function that starts a server when the first test calls it, and returns the same
// server to all tests. Main stops the servers. No test may stop them, or change what other tests
// rely on.
func Shared[T any](start func(testing.TB) T) func(testing.TB) T {
	var mu sync.Mutex
	var server T
	started := false
	return func(t testing.TB) T {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !started { // each test is skipped if the program is not installed
			server = start(outliving{t})
			started = true
		}
		return server
	}
}

// outliving is a test whose cleanup is left to Main.
type outliving struct{ testing.TB }

var cleanups struct {
	sync.Mutex
	all []func()
}

func (outliving) Cleanup(f func()) {
	cleanups.Lock()
	defer cleanups.Unlock()
	cleanups.all = append(cleanups.all, f)
}

// stopShared stops the shared servers.
func stopShared() {
	cleanups.Lock()
	defer cleanups.Unlock()
	for _, f := range slices.Backward(cleanups.all) {
		f()
	}
}
