//go:build unix && go1.25

package servertest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// AccessKey and Secret are the credentials of S3, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
// Dynalite accepts any.
const AccessKey, Secret = "access", "a-secret"

// S3 starts versitygw, a server with the protocol of S3, on files with extended attributes. dir has
// the objects of its only bucket.
func S3(t testing.TB, bucket string) (addr, dir string, p *Process) {
	t.Helper()
	path, all := installed.Need(t, installed.VersityGW), Dir(t, "")
	dir = filepath.Join(all, bucket)
	Do(t, os.Mkdir(dir, 0o700))
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
	return addr, dir, Start(t, Command{Path: path, Args: []string{"--port", addr, "--access", AccessKey, "--secret", Secret,
		"--keep-alive", "--quiet", "posix", all}}, func() error { return speaks(addr) })
}

// serve is a script that runs dynalite. Without it, dynalite would exit if a client broke its
// connection during a request, and close idle connections after 5 s even if a request was arriving.
const serve = `
process.on('uncaughtException', err => { if (err.code !== 'ECONNRESET') { console.error(err); process.exit(1) } })
const [port, path] = process.argv.slice(1)
const server = require('dynalite')({ path, createTableMs: 0 })
server.keepAliveTimeout = 0
server.listen(port, '127.0.0.1')
`

// Dynalite starts a server with the protocol of DynamoDB.
func Dynalite(t testing.TB) (addr string, p *Process) {
	t.Helper()
	path, node := installed.Need(t, installed.Dynalite), Program(t, "nodejs", "node")
	port, data := strconv.Itoa(Port(t)), filepath.Join(Dir(t, ""), "data")
	addr = net.JoinHostPort("127.0.0.1", port)
	return addr, Start(t, Command{Path: node, Dir: path, Args: []string{"-e", serve, port, data}}, func() error { return speaks(addr) })
}

// CreateTable creates a table in dynalite for package dynamolease.
func CreateTable(t testing.TB, addr, table string) {
	t.Helper()
	call := func(op, body string) int {
		req := Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
		req.Header.Set("X-Amz-Date", "now")
		// Dynalite accepts any signature.
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request, SignedHeaders=a, Signature=a")
		resp := Must(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		return resp.StatusCode
	}
	is := call("CreateTable", fmt.Sprintf(`{"TableName": %q, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "store", "AttributeType": "S"}, {"AttributeName": "key", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "store", "KeyType": "HASH"}, {"AttributeName": "key", "KeyType": "RANGE"}]}`, table))
	require.Equal(t, http.StatusOK, is, "CreateTable")
	get := fmt.Sprintf(`{"TableName": %q, "Key": {"store": {"S": "a"}, "key": {"S": "a"}}}`, table)
	Await(t, func() error {
		if is := call("GetItem", get); is != http.StatusOK {
			return fmt.Errorf("the table is not ready: GetItem: %d", is)
		}
		return nil
	})
}

// speaks returns nil if an HTTP server answers, with any status.
func speaks(addr string) error {
	resp, err := http.Get(fmt.Sprint("http://", addr))
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// RoundTrip is a function that is an HTTP client and a transport.
type RoundTrip func(*http.Request) (*http.Response, error)

func (f RoundTrip) Do(req *http.Request) (*http.Response, error) { return f(req) }

func (f RoundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Answer returns a response to a request. header may be nil.
func Answer(req *http.Request, status int, header http.Header, body string) *http.Response {
	if req.Body != nil {
		req.Body.Close()
	}
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Request: req, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// Refusal is a service's response, and the errors of a store's methods that it must cause.
type Refusal struct {
	Status int
	Code   string
	Away   bool   // the errors match lease.ErrAway
	Final  bool   // the errors match lease.ErrRefused
	Says   string // a part of their text
}

// Refusals checks that errors have their remedies and the place of the key "key", and that no
// request is sent twice: a repeated Put would fail although it was stored. In body, CODE stands for
// the response's code.
func Refusals(t *testing.T, place, body string, open func(RoundTrip) (lease.Store, error), all []Refusal) {
	for _, r := range all {
		sent := 0
		s := Must(open(func(req *http.Request) (*http.Response, error) {
			sent++
			return Answer(req, r.Status, nil, strings.ReplaceAll(body, "CODE", r.Code)), nil
		}))(t)
		for name, call := range Calls(s, "key") {
			sent = 0
			err := call(t.Context())
			require.Error(t, err, "%s, %s", r.Code, name)
			assert.Equal(t, r.Away, errors.Is(err, lease.ErrAway), "%s, %s: %v", r.Code, name, err)
			assert.Equal(t, r.Final, errors.Is(err, lease.ErrRefused), "%s, %s: %v", r.Code, name, err)
			assert.NotErrorIs(t, err, lease.ErrConflict, "%s, %s", r.Code, name)
			assert.ErrorContains(t, err, r.Says, "%s, %s", r.Code, name)
			assert.ErrorContains(t, err, place, "%s, %s", r.Code, name)
			assert.Equal(t, 1, sent, "%s, %s: requests", r.Code, name)
		}
	}
}
