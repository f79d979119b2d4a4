//go:build unix && go1.25

package servertest

import (
	"slices"
	"sync"
	"testing"
)

// Shared returns a function that starts a server at its first call, and returns this server at
// later ones. Main stops the servers. Tests must not stop them, or change what other tests rely on.
func Shared[T any](start func(testing.TB) T) func(testing.TB) T {
	var mu sync.Mutex
	var server T
	started := false
	return func(t testing.TB) T {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !started { // if the program is not installed, start skips each test
			server = start(outliving{t})
			started = true
		}
		return server
	}
}

// outliving is a test that leaves its cleanup to Main.
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
