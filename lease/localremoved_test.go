package lease

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If the worker ID went to another owner, and the copy cannot be removed, the holder says so: a later start would use it.
func TestLocalCopyThatCannotBeRemovedIsAnError(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		full := errors.New("the disk is read only")
		o := &Options{Layout: fleet, Owner: "a", Clock: clockAt(0), NewStore: true, Reuse: ReuseKeep, LocalCopy: dir}
		l, err := acquireOn(t.Context(), noRemovals(full), m, o)
		require.NoError(t, err)
		defer stopRenewing(l)
		m.take(l.Worker(), "b")
		time.Sleep(span)
		assert.ErrorIs(t, l.Stats().LastError, full)
	})
}

// noRemovals returns a disk from which no record can be removed.
func noRemovals(err error) disk {
	return func(what, path string, do func() error) error {
		if what == "remove" && filepath.Base(filepath.Dir(path)) == strings.TrimSuffix(recordPrefix, "/") {
			return err
		}
		return do()
	}
}
