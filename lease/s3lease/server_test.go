//go:build unix

package s3lease_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

const bucket = "workers"

// configOf returns the config of a process that uses a server.
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
	s, err := s3lease.New(configOf(addr), bucket, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		return s3lease.New(configOf(addr), bucket, in(space))
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

// client returns a client of the SDK, as others have it.
func (s *service) client() *s3.Client {
	return s3.NewFromConfig(configOf(s.addr), func(o *s3.Options) { o.UsePathStyle = true })
}

// wipe deletes a store's objects as aws s3 rm --recursive does.
func (s *service) wipe(t testing.TB, space string) {
	t.Helper()
	ctx, c := context.WithoutCancel(t.Context()), s.client()
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: aws.String(space + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: o.Key}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func server(t testing.TB) *servertest.Server {
	s := start(t)
	return &servertest.Server{
		Addr: s.addr, Fleet: s3lease.DefaultWindow,
		Open:  func(t testing.TB, addr, space string) lease.Store { return open(t, addr, in(space)) },
		Wipes: map[string]func(testing.TB, string){"Remove": s.wipe},
		Kill:  s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, server(t))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, server(b)) }

// shared returns a server for the tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) *service { return start(t) })
