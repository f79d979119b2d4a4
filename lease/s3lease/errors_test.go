package s3lease_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

// roundTrip is a client that asks no server, or changes requests and answers.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) Do(req *http.Request) (*http.Response, error) { return f(req) }

// faked returns the config of a process whose requests go to f.
func faked(f roundTrip) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), HTTPClient: f, RetryMaxAttempts: 5,
		Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
	}
}

func answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Request: req, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// Errors say what to do, and no request is sent twice: a Put that is repeated would fail although it
// was stored.
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		away   bool
		says   string
	}{
		{404, "NoSuchBucket", false, "make the bucket first"},
		{403, "AccessDenied", false, "s3:GetObject and s3:PutObject on s3://workers/snowflake/*, and s3:ListBucket"},
		{501, "NotImplemented", false, "NotImplemented"},
		{409, "ConditionalRequestConflict", true, "ConditionalRequestConflict"},
		{409, "OperationAborted", true, "OperationAborted"},
		{400, "RequestTimeout", true, "RequestTimeout"},
		{429, "TooManyRequests", true, "TooManyRequests"},
		{500, "InternalError", true, "InternalError"},
		{503, "SlowDown", true, "SlowDown"},
	} {
		sent := 0
		s, err := s3lease.New(faked(func(req *http.Request) (*http.Response, error) {
			sent++
			return answer(req, test.status, "<Error><Code>"+test.code+"</Code></Error>"), nil
		}), "workers", &s3lease.Options{PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range servertest.Calls(s, "key") {
			sent = 0
			err := call(t.Context())
			if err == nil || errors.Is(err, lease.ErrAway) != test.away || errors.Is(err, lease.ErrConflict) {
				t.Errorf("%s, %s: %v", test.code, name, err)
				continue
			}
			for _, text := range []string{test.says, "s3lease: s3://workers/snowflake/key"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s, %s: the error does not say %q: %v", test.code, name, text, err)
				}
			}
			if sent != 1 {
				t.Errorf("%s, %s: it sends %d requests", test.code, name, sent)
			}
		}
	}
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
				return answer(req, refusal.status, "<Error><Code>"+refusal.code+"</Code></Error>"), nil
			}), "workers", &s3lease.Options{PathStyle: true, ConditionalDelete: conditionalDelete})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(t.Context(), "key", `"etag"`, nil); !errors.Is(err, lease.ErrConflict) {
				t.Errorf("Put: %v", err)
			}
			if err := s.Delete(t.Context(), "key", `"etag"`); !errors.Is(err, lease.ErrConflict) {
				t.Errorf("Delete: %v", err)
			}
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
		if !errors.Is(err, lease.ErrInvalidOptions) || s != nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v", test.says, s, err)
		}
	}
}
