package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineIsAContextWithATimer holds a deadline against a context of the standard library, whether or not somebody
// waits for its end.
func TestDeadlineIsAContextWithATimer(t *testing.T) {
	type key struct{}
	for _, c := range []struct {
		name    string
		parent  time.Duration // 0: no limit
		limit   time.Duration // 0: no limit
		cancels time.Duration // when the parent is canceled; 0: never
	}{
		{"no limit", 0, 0, 0},
		{"limit", 0, 5 * time.Second, 0},
		{"limit has passed", 0, -time.Second, 0},
		{"earlier parent", 3 * time.Second, 5 * time.Second, 0},
		{"later parent", 8 * time.Second, 5 * time.Second, 0},
		{"parent alone", 3 * time.Second, 0, 0},
		{"canceled", 0, 5 * time.Second, 2 * time.Second},
		{"canceled after the limit", 0, 2 * time.Second, 5 * time.Second},
	} {
		for _, waits := range []bool{false, true} {
			name := c.name
			if waits {
				name += ", and somebody waits"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
					defer cancel()
					if c.parent != 0 {
						parent, cancel = context.WithTimeout(parent, c.parent)
						defer cancel()
					}
					if c.cancels != 0 {
						time.AfterFunc(c.cancels, cancel)
					}
					want, stop := parent, context.CancelFunc(func() {})
					got := &deadline{Context: parent}
					if c.limit != 0 {
						want, stop = context.WithTimeout(parent, c.limit)
						got.limit(time.Now().Add(c.limit))
					}
					defer stop()
					defer got.stop()
					child, release := context.Context(got), context.CancelFunc(func() {})
					if waits {
						child, release = context.WithCancel(got)
					}
					defer release()
					for second := range 10 {
						synctest.Wait()
						if waits && (isDone(got) != isDone(want) || isDone(child) != isDone(want)) {
							t.Fatalf("after %d s it is done: %t, a context made of it: %t, want %t", second, isDone(got), isDone(child), isDone(want))
						}
						if !errors.Is(got.Err(), want.Err()) || context.Cause(got) != context.Cause(want) {
							t.Fatalf("after %d s: %v because of %v, want %v", second, got.Err(), context.Cause(got), want.Err())
						}
						time.Sleep(time.Second)
					}
					at, ok := got.Deadline()
					if wantAt, wantOK := want.Deadline(); !at.Equal(wantAt) || ok != wantOK || child.Value(key{}) != "value" {
						t.Errorf("the deadline is %v, %t, want %v, %t; the value is %v", at, ok, wantAt, wantOK, child.Value(key{}))
					}
				})
			})
		}
	}
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
