//go:build !linux

package vmclock

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

func mapped(path string) (page []byte, counter *atomic.Uint64, err error) {
	return nil, nil, fmt.Errorf("%w: %s cannot be read on %s", ErrNoCounter, path, runtime.GOOS)
}
