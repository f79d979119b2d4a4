package conn

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A connection takes its time-out from the context. It may time out just before the context ends.
func TestTimeoutIsTheContextsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
	defer cancel()
	_, err := Call(ctx, Key{}, func() (int, error) { return 0, os.ErrDeadlineExceeded })
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Call(ctx, Key{}, func() (int, error) { return 0, os.ErrDeadlineExceeded }); err != os.ErrDeadlineExceeded {
		t.Errorf("long before the deadline: %v", err)
	}
}
