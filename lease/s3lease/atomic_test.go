//go:build unix && go1.25

package s3lease_test

import (
	"crypto/md5"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// The tests of this package are valid only if their server is atomic: of a hundred writers of an
// object with the same condition, exactly one wins. Readers should get a content with its ETag.
// From versitygw some of 1,000 reads get the old ETag: see the package's documentation.
func TestServerIsAtomic(t *testing.T) {
	depth.NeedFull(t, "it is the server's property, not the store's")
	t.Parallel()
	s := shared(t)
	const writers = 100
	clients := make([]*s3.Client, writers)
	for i := range clients {
		clients[i] = s.client()
	}
	ctx, key := t.Context(), aws.String("atomic/"+rand.Text())
	var over atomic.Bool
	var reads, torn atomic.Int64
	var readers sync.WaitGroup
	for _, c := range clients[:4] {
		readers.Go(func() {
			for !over.Load() {
				out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: key})
				if err != nil {
					continue // there is none yet
				}
				body, err := io.ReadAll(out.Body)
				out.Body.Close()
				if err != nil {
					t.Error(err)
					continue
				}
				reads.Add(1)
				if fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(body))) != aws.ToString(out.ETag) {
					torn.Add(1)
				}
			}
		})
	}
	var etag *string
	for round := range 200 {
		in := s3.PutObjectInput{Bucket: aws.String(bucket), Key: key, IfMatch: etag}
		if etag == nil {
			in.IfNoneMatch = aws.String("*")
		}
		won := make(chan *string, writers)
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() {
				in := in
				in.Body = strings.NewReader(rand.Text() + strings.Repeat("x", 500+round))
				out, err := c.PutObject(ctx, &in)
				var api smithy.APIError
				if err == nil {
					won <- out.ETag
				} else if !errors.As(err, &api) || api.ErrorCode() != "PreconditionFailed" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Len(t, won, 1, "of %d writers win, in round %d", writers, round)
		etag = <-won
	}
	over.Store(true)
	readers.Wait()
	t.Logf("%d of %d reads have a content with another's ETag", torn.Load(), reads.Load())
	require.NotZero(t, reads.Load())
	assert.LessOrEqual(t, torn.Load(), reads.Load()/100, "the server's reads are not atomic")
}
