//go:build unix && go1.25

package s3lease_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

const bucket = "workers"

// configOf returns the config for a server.
func configOf(addr string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://" + addr),
		Credentials: credentials.NewStaticCredentialsProvider(servertest.AccessKey, servertest.Secret, ""),
	}
}

// in returns the options of a space.
func in(space string) *s3lease.Options { return &s3lease.Options{Prefix: space, PathStyle: true} }

// open opens a store with a new client.
func open(t testing.TB, addr string, o *s3lease.Options) *s3lease.Store {
	t.Helper()
	return servertest.Must(s3lease.New(configOf(addr), bucket, o))(t)
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		s, err := s3lease.New(configOf(addr), bucket, in(space))
		return s, nil, err
	}))
}

// service is a server with a bucket.
type service struct {
	*servertest.Process
	addr, dir string // dir has the objects
}

func start(t testing.TB) *service {
	t.Helper()
	addr, dir, p := servertest.S3(t, bucket)
	return &service{p, addr, dir}
}

// client returns a client of the SDK.
func (s *service) client() *s3.Client {
	return s3.NewFromConfig(configOf(s.addr), func(o *s3.Options) { o.UsePathStyle = true })
}

// wipe deletes a store's objects, like aws s3 rm --recursive.
func (s *service) wipe(t testing.TB, space string) {
	t.Helper()
	ctx, c := context.WithoutCancel(t.Context()), s.client()
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: aws.String(space + "/")})
	for pages.HasMorePages() {
		page := servertest.Must(pages.NextPage(ctx))(t)
		for _, o := range page.Contents {
			servertest.Must(c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: o.Key}))(t)
		}
	}
}

// suite returns the service for the suites.
func (s *service) suite() *servertest.Server {
	return &servertest.Server{
		Process: s.Process, Addr: s.addr, Fleet: s3lease.DefaultWindow,
		Wipes: map[string]func(testing.TB, string){"Remove": s.wipe},
		Garble: func(t testing.TB, space, key string) {
			in := &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(space + "/" + key),
				Body: strings.NewReader(`{"worker": 1, "tok`)}
			servertest.Must(s.client().PutObject(context.WithoutCancel(t.Context()), in))(t)
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := shared(t).suite()
	servertest.Store(t, s)
	servertest.Calm(t, s)
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Faults(t, start(t).suite())
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, start(b).suite()) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, start(b).suite()) }

// shared returns a server for tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) *service { return start(t) })

func TestIdleConnectionsThatAreHalfOpenAreClosed(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, start(t).addr)
	servertest.HalfOpenPool(t, proxy, open(t, proxy.Addr(), in("space")), nil)
}
