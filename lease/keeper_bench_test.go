//go:build go1.25

package lease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// BenchmarkRenewal is the processor time of a renewal, without the store's.
func BenchmarkRenewal(b *testing.B) {
	ctx := context.Background()
	l, err := Acquire(ctx, newMemory(), &Options{NewStore: true, Window: MaxWindow})
	require.NoError(b, err)
	defer func() { require.NoError(b, l.Release(ctx)) }()
	_, err = snowflake.NewLeased(l, nil)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.renew(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
