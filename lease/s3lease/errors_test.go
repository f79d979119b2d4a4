//go:build go1.25

package s3lease_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

// faked returns a config with which requests go to f.
func faked(f servertest.RoundTrip) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), HTTPClient: f, RetryMaxAttempts: 5,
		Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
	}
}

func TestErrorsHaveARemedy(t *testing.T) {
	const body = "<Error><Code>CODE</Code></Error>"
	servertest.Refusals(t, "s3lease: s3://workers/snowflake/key", body, func(f servertest.RoundTrip) (lease.Store, error) {
		return s3lease.New(faked(f), "workers", &s3lease.Options{PathStyle: true})
	}, []servertest.Refusal{
		{Status: 404, Code: "NoSuchBucket", Final: true, Says: "make the bucket first"},
		{Status: 403, Code: "AccessDenied", Final: true,
			Says: "s3:GetObject and s3:PutObject on s3://workers/snowflake/*, and s3:ListBucket"},
		{Status: 403, Code: "SignatureDoesNotMatch", Final: true, Says: "SignatureDoesNotMatch"},
		{Status: 501, Code: "NotImplemented", Says: "NotImplemented"},
		{Status: 409, Code: "ConditionalRequestConflict", Away: true, Says: "ConditionalRequestConflict"},
		{Status: 409, Code: "OperationAborted", Away: true, Says: "OperationAborted"},
		{Status: 400, Code: "RequestTimeout", Away: true, Says: "RequestTimeout"},
		{Status: 429, Code: "TooManyRequests", Away: true, Says: "TooManyRequests"},
		{Status: 500, Code: "InternalError", Away: true, Says: "InternalError"},
		{Status: 503, Code: "SlowDown", Away: true, Says: "SlowDown"},
	})
}

// If there is no object for If-Match, S3 answers a Put and a Delete with 404.
func TestMissingObjectIsAConflict(t *testing.T) {
	for conditionalDelete, want := range map[bool]string{false: "PUT PUT", true: "PUT DELETE"} {
		for status, code := range map[int]string{404: "NoSuchKey", 412: "PreconditionFailed"} {
			var methods []string
			s := servertest.Must(s3lease.New(faked(func(req *http.Request) (*http.Response, error) {
				methods = append(methods, req.Method)
				assert.Equal(t, `"etag"`, req.Header.Get("If-Match"), req.Method)
				return servertest.Answer(req, status, nil, "<Error><Code>"+code+"</Code></Error>"), nil
			}), "workers", &s3lease.Options{PathStyle: true, ConditionalDelete: conditionalDelete}))(t)
			_, err := s.Put(t.Context(), "key", `"etag"`, nil)
			assert.ErrorIs(t, err, lease.ErrConflict)
			assert.ErrorIs(t, s.Delete(t.Context(), "key", `"etag"`), lease.ErrConflict)
			assert.Equal(t, want, strings.Join(methods, " "))
		}
	}
}

// Services list up to 1,000 keys in a page; this one lists one.
func TestListHasSeveralPages(t *testing.T) {
	const pages = 3
	s := servertest.Must(s3lease.New(faked(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Get("list-type") == "" {
			return servertest.Answer(req, 200, http.Header{"Etag": {`"etag"`}}, rand.Text()+" value"), nil
		}
		// The request for the first page has no token, so page is 0.
		page, _ := strconv.Atoi(req.URL.Query().Get("continuation-token"))
		return servertest.Answer(req, 200, nil,
			fmt.Sprintf("<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"+
				"<Contents><Key>snowflake/key/%d</Key><Size>32</Size></Contents></ListBucketResult>", page+1 < pages, page+1, page)), nil
	}), "workers", &s3lease.Options{PathStyle: true}))(t)
	assert.Len(t, servertest.Must(s.List(t.Context(), "key/"))(t), pages)
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
		assert.ErrorContains(t, err, test.says)
	}
}
