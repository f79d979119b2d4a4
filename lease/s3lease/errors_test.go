package s3lease_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

// faked returns the config of a process whose requests go to f.
func faked(f servertest.RoundTrip) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), HTTPClient: f, RetryMaxAttempts: 5,
		Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	servertest.Refusals(t, "s3lease: s3://workers/snowflake/key", "<Error><Code>CODE</Code></Error>", func(f servertest.RoundTrip) (lease.Store, error) {
		return s3lease.New(faked(f), "workers", &s3lease.Options{PathStyle: true})
	}, []servertest.Refusal{
		{Status: 404, Code: "NoSuchBucket", Says: "make the bucket first"},
		{Status: 403, Code: "AccessDenied", Says: "s3:GetObject and s3:PutObject on s3://workers/snowflake/*, and s3:ListBucket"},
		{Status: 501, Code: "NotImplemented", Says: "NotImplemented"},
		{Status: 409, Code: "ConditionalRequestConflict", Away: true, Says: "ConditionalRequestConflict"},
		{Status: 409, Code: "OperationAborted", Away: true, Says: "OperationAborted"},
		{Status: 400, Code: "RequestTimeout", Away: true, Says: "RequestTimeout"},
		{Status: 429, Code: "TooManyRequests", Away: true, Says: "TooManyRequests"},
		{Status: 500, Code: "InternalError", Away: true, Says: "InternalError"},
		{Status: 503, Code: "SlowDown", Away: true, Says: "SlowDown"},
	})
}

// If there is no object that If-Match could name, S3 answers a Put and a Delete with 404.
func TestMissingObjectIsAConflict(t *testing.T) {
	for _, conditionalDelete := range []bool{false, true} {
		for _, refusal := range []struct {
			status int
			code   string
		}{{404, "NoSuchKey"}, {412, "PreconditionFailed"}} {
			var methods []string
			s, err := s3lease.New(faked(func(req *http.Request) (*http.Response, error) {
				methods = append(methods, req.Method)
				if got := req.Header.Get("If-Match"); got != `"etag"` {
					t.Errorf("%s has If-Match %s", req.Method, got)
				}
				return servertest.Answer(req, refusal.status, nil, "<Error><Code>"+refusal.code+"</Code></Error>"), nil
			}), "workers", &s3lease.Options{PathStyle: true, ConditionalDelete: conditionalDelete})
			require.NoError(t, err)
			_, err = s.Put(t.Context(), "key", `"etag"`, nil)
			assert.ErrorIs(t, err, lease.ErrConflict)
			assert.ErrorIs(t, s.Delete(t.Context(), "key", `"etag"`), lease.ErrConflict)
			if want := map[bool]string{false: "PUT PUT", true: "PUT DELETE"}[conditionalDelete]; strings.Join(methods, " ") != want {
				t.Errorf("it sends %v, not %s", methods, want)
			}
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	noRegion, noCredentials := faked(nil), faked(nil)
	noRegion.Region, noCredentials.Credentials = "", nil
	for _, test := range []struct {
		cfg    aws.Config
		bucket string
		says   string
	}{
		{faked(nil), "", "the bucket's name is empty"},
		{noRegion, "b", "no region"},
		{noCredentials, "b", "no credentials"},
	} {
		s, err := s3lease.New(test.cfg, test.bucket, nil)
		require.ErrorIs(t, err, lease.ErrInvalidOptions)
		require.Nil(t, s)
		assert.Contains(t, err.Error(), test.says)
	}
}
