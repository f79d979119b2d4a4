//go:build go1.25

package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// In an error's text, the cause comes before the consequence, and nothing is repeated. errors.Is
// still finds every sentinel.
func TestErrorTextsNameCauseFirst(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)
	record := protocol.Record{Worker: 3, State: StateFree, Holder: protocol.Holder{Owner: "orders-1", Host: "h", PID: 7}, Bounds: []time.Time{at}}
	hangs := &FileError{Path: "/l/worker-0.lock", Err: fmt.Errorf("lock: %w", context.DeadlineExceeded)}
	patient, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, tt := range []struct {
		err  error
		is   []error
		text string
	}{
		{book.Unanswered(t.Context(), patient, hangs), []error{context.DeadlineExceeded},
			"lease: the store did not answer in time: file /l/worker-0.lock: lock: context deadline exceeded"},
		{book.Unanswered(patient, patient, patient.Err()), []error{context.DeadlineExceeded},
			"lease: the store did not answer in time: context deadline exceeded"},
		{unreplaced(fmt.Errorf("%w: worker 0 went to another", ErrLost), hangs), []error{ErrLost, context.DeadlineExceeded},
			"lease: the worker ID is lost: worker 0 went to another; it was not replaced: file /l/worker-0.lock: lock: context deadline exceeded"},
		{&FileError{Path: "/l", Err: &fs.PathError{Op: "open", Path: "/l", Err: fs.ErrNotExist}}, []error{fs.ErrNotExist},
			"lease: file /l: open: file does not exist"},
		{&LayoutError{Worker: none, Where: "the store", Has: snowflake.DefaultLayout(), Want: snowflake.DefaultLayout()}, []error{ErrLayout},
			"lease: another layout: the store has " + snowflake.DefaultLayout().String() + ", not " + snowflake.DefaultLayout().String()},
		{&ClockLeapError{Worker: 1, Bound: at, Expected: at.Add(-time.Hour - 123456), MaxLeap: time.Minute}, []error{ErrClockLeap},
			"lease: the clock leapt forward: worker 1 would stamp up to 2026-11-21T12:00:00.123Z, 1h0m0s ahead of 2026-11-21T11:00:00.123Z; MaxLeap allows 1m0s"},
		{&ExhaustedError{First: 3, Last: 4, Holders: []Holder{holderOf(record), holderOf(record)}}, []error{ErrExhausted},
			"lease: no worker ID is free, of 3 to 4: " + holderOf(record).String() + "; " + holderOf(record).String()},
		{&snowflake.LeaseExpiredError{Worker: 1, NotAfter: at, Time: at.Add(time.Minute), Cause: hangs}, []error{snowflake.ErrLeaseExpired, context.DeadlineExceeded},
			"snowflake: lease expired: file /l/worker-0.lock: lock: context deadline exceeded; " +
				"worker 1 may stamp IDs before 2026-11-21T12:00:00.123Z, the next would be at 2026-11-21T12:01:00.123Z"},
		{&RetireError{Holder{Worker: 3}, "nobody has it"}, []error{ErrNotRetired}, "lease: worker 3 is not retired: nobody has it"},
		{errors.New("worker 3 is free from 2026-11-21T12:00:00.123Z on, and was held by orders-1 (h, pid 7)"), nil, holderOf(record).String()},
	} {
		assert.EqualError(t, tt.err, tt.text)
		for _, is := range tt.is {
			assert.ErrorIs(t, tt.err, is)
		}
	}
}

func TestZeroLeaseIsRefused(t *testing.T) {
	for _, o := range []*snowflake.Options{nil, {Layout: fleet}, {Layout: snowflake.ClockSeqLayout(), OnBackward: snowflake.FailPolicy()}} {
		_, err := snowflake.NewLeased(&Lease{}, o)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.EqualError(t, err, "snowflake: invalid options: this Lease was not made by Acquire")
	}
	l := &Lease{}
	assert.ErrorIs(t, l.Release(t.Context()), ErrInvalidOptions)
	assert.Zero(t, l.Worker())
	assert.Zero(t, l.Stats())
	assert.NoError(t, l.Err())
	l.Hold()()
}

func TestZeroWatermarkReaderIsRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(WatermarkReader).Read(ctx)
	require.ErrorIs(t, err, ErrInvalidOptions)
	require.EqualError(t, err, "snowflake: invalid options: this WatermarkReader was not made by NewWatermarkReader")
}
